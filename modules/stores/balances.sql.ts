import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { BALANCE_ENTRY_KINDS } from "./stores.rules.ts";
import { safeInteger, inMicroseconds, sql, timestamp } from "../../db/sql.ts";
import { anyAccount, newestOf } from "../records/ownedRecords.sql.ts";
import { balanceColumns, balanceRow } from "./stores.sql.ts";

const lockedRow = z.strictObject({
  accountId: z.uuid(),
  ...balanceRow,
  isDepleted: z.boolean(),
  /** The time of the store's latest record or refund, in microseconds since 1970; 0 if it has none. */
  lastRecordUs: safeInteger,
});

/** A store's balance, prices and features while no other transaction can spend. */
export type LockedBalance = Readonly<z.output<typeof lockedRow>>;

/**
 * Locks the balances of stores until the transaction ends, always in the same order to avoid deadlocks.
 * @param options.skipsLocked whether those that another transaction has locked are left out
 */
export const lockBalances = (
  transaction: DatabaseTransactionConnection,
  accountIds: readonly string[],
  { skipsLocked = false }: { readonly skipsLocked?: boolean } = {},
): Promise<readonly LockedBalance[]> =>
  transaction.any(sql.prepared(`lock_balances${skipsLocked ? "_skip" : ""}`, lockedRow)`
    SELECT
      store.account_id AS "accountId",
      ${balanceColumns},
      store.depleted_at IS NOT NULL AS "isDepleted",
      (extract(epoch FROM greatest(store.last_record_at, 'epoch')) * 1000000)::bigint AS "lastRecordUs"
    FROM store
    WHERE store.account_id = ANY(${sql.array(accountIds, "uuid")})
    ORDER BY store.account_id
    FOR NO KEY UPDATE OF store ${skipsLocked ? sql.fragment`SKIP LOCKED` : sql.fragment``}
  `);

/** PostgreSQL's code for a lock that was not granted within `lock_timeout`. */
const LOCK_NOT_AVAILABLE = "55P03";

/** Returns whether a lock was not granted within the time of `limitLockWait`. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof Error &&
  (("code" in error && error.code === LOCK_NOT_AVAILABLE) || isLockTimeout(error.cause));

/**
 * Limits how long each later statement of the transaction waits for a lock.
 * @param timeoutMs 0 for no limit
 */
export const limitLockWait = async (
  transaction: DatabaseTransactionConnection,
  timeoutMs: number,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    SELECT FROM set_config('lock_timeout', ${String(timeoutMs)}, true)
  `);
};

/** Makes later records of a store whose balance is locked be later than imported ones, too. */
export const raiseLastRecordTime = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  times: readonly string[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE store
    SET last_record_at = greatest(last_record_at, ${timestamp(times.toSorted().at(-1) ?? null)})
    WHERE account_id = ${accountId}
  `);
};

/** The assignments that set a store's balance. One that rises is not depleted any more. */
export const setBalance = (balanceCents: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  balance_cents = ${balanceCents},
  depleted_at = CASE WHEN ${balanceCents} <= store.balance_cents THEN store.depleted_at END
`;

/** Marks a locked balance as one that did not cover a write. */
export const markBalanceDepleted = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  depletedAt: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE store
    SET depleted_at = ${timestamp(depletedAt)}
    WHERE account_id = ${accountId}
  `);
};

const entryRow = z.strictObject({
  id: z.bigint().transform(String),
  kind: z.enum(BALANCE_ENTRY_KINDS),
  amountCents: safeInteger,
  balanceCents: safeInteger,
  quantity: safeInteger.nullable(),
  recordId: z.string().nullable(),
  reference: z.string().nullable(),
  note: z.string(),
  /** In microseconds; of a payment, that of its record. */
  createdAt: z.string(),
});

export type BalanceEntry = Readonly<z.output<typeof entryRow>>;

const entryColumns = sql.fragment`
  id,
  kind,
  amount_cents AS "amountCents",
  balance_cents AS "balanceCents",
  quantity,
  coalesce(
    (
      SELECT coalesce(registration.imported_id, registration.id::text)
      FROM registration
      WHERE registration.id = balance_entry.registration_id
    ),
    (
      SELECT coalesce(donation.imported_id, donation.id::text)
      FROM donation
      WHERE donation.id = balance_entry.donation_id
    )
  ) AS "recordId",
  reference,
  coalesce(
    (
      SELECT refund.reason
      FROM refund
      WHERE balance_entry.kind = 'refund'
        AND refund.account_id = balance_entry.account_id
        AND refund.created_at = balance_entry.created_at
        AND refund.reason IS NOT NULL
      LIMIT 1
    ),
    note
  ) AS note,
  ${inMicroseconds(sql.identifier(["balance_entry", "created_at"]))} AS "createdAt"
`;

/** Returns the newest entries, or the newest ones before the entry `before`. */
export const listBalanceEntries = (
  db: CommonQueryMethods,
  accountId: string,
  { before, limit }: { readonly before: string | null; readonly limit: number },
): Promise<readonly BalanceEntry[]> => {
  const newest = newestOf(accountId, before);
  return db.any(sql.type(entryRow)`
    SELECT ${entryColumns}
    FROM balance_entry
    WHERE ${newest.condition}
    ${newest.order}
    LIMIT ${limit}
  `);
};

/** How many entries one query reads. */
const PAGE_ROWS = 500;

/** Yields all of a store's ledger that precedes an entry, newest first, in pages. */
export async function* readWholeLedger(
  db: CommonQueryMethods,
  storeId: string,
  start: string | null,
): AsyncGenerator<readonly BalanceEntry[], void, void> {
  let before = start;
  let page: readonly BalanceEntry[];
  do {
    page = await listBalanceEntries(db, storeId, { before, limit: PAGE_ROWS });
    yield page;
    before = page.at(-1)?.id ?? null;
  } while (page.length === PAGE_ROWS);
}

export const findBalanceEntryByReference = (
  db: CommonQueryMethods,
  accountId: string,
  reference: string,
): Promise<BalanceEntry | null> =>
  db.maybeOne(sql.type(entryRow)`
    SELECT ${entryColumns}
    FROM balance_entry
    WHERE account_id = ${anyAccount(accountId)} AND reference = ${reference}
  `);

const existsRow = z.strictObject({ exists: z.boolean() });

/** Returns whether any store's ledger has an entry with a reference. */
export const isReferenceUsed = (db: CommonQueryMethods, reference: string): Promise<boolean> =>
  db.oneFirst(sql.type(existsRow)`
    SELECT EXISTS (
      SELECT
      FROM store
      JOIN balance_entry USING (account_id)
      WHERE balance_entry.reference = ${reference}
    ) AS exists
  `);

const countRow = z.strictObject({ stores: safeInteger });

/** Counts the installed stores whose balance is low, by the rule of `isBalanceLow`. */
export const countLowBalances = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS stores
    FROM store
    WHERE uninstalled_at IS NULL AND balance_cents < low_balance_cents
  `);
