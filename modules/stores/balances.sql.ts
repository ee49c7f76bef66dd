import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { BALANCE_ENTRY_KINDS } from "./stores.rules.ts";
import type { BalanceEntryKind, Prices } from "./stores.rules.ts";
import { safeInteger, inMicroseconds, sql, timestamp } from "../../db/sql.ts";
import { anyAccount, newestOf } from "../records/ownedRecords.sql.ts";
import { priceColumns, priceFields } from "./stores.sql.ts";

const lockedRow = z
  .strictObject({
    accountId: z.uuid(),
    domain: z.string(),
    balanceCents: safeInteger,
    lowBalanceCents: safeInteger,
    isDepleted: z.boolean(),
    /** The time of the store's latest record, in microseconds since 1970; 0 if it has none. */
    lastRecordUs: safeInteger,
    treePlanting: z.boolean(),
    plasticRemoval: z.boolean(),
    donations: z.boolean(),
    ...priceFields,
  })
  .transform(({ treePriceCents, bottlePriceCents, ...balance }) => ({
    ...balance,
    prices: { tree: treePriceCents, bottle: bottlePriceCents } satisfies Prices,
  }));

/** A store's balance, prices and features while no other transaction can spend. */
export type LockedBalance = Readonly<z.output<typeof lockedRow>>;

const lockedColumns = sql.fragment`
  store_balance.account_id AS "accountId",
  store.domain,
  store_balance.balance_cents AS "balanceCents",
  store_balance.low_balance_cents AS "lowBalanceCents",
  store_balance.depleted_at IS NOT NULL AS "isDepleted",
  (extract(epoch FROM greatest(store_balance.last_record_at, 'epoch')) * 1000000)::bigint AS "lastRecordUs",
  store.tree_planting AS "treePlanting",
  store.plastic_removal AS "plasticRemoval",
  store.donations,
  ${priceColumns}
`;

const balancesOf = (accountIds: readonly string[]) => sql.fragment`
  FROM store_balance
  JOIN store ON store.account_id = store_balance.account_id
  WHERE store_balance.account_id = ANY(${sql.array(accountIds, "uuid")})
  ORDER BY store_balance.account_id
`;

/** Locks the balances until the transaction ends, always in the same order to avoid deadlocks. */
export const lockBalances = (
  transaction: DatabaseTransactionConnection,
  accountIds: readonly string[],
): Promise<readonly LockedBalance[]> =>
  transaction.any(sql.prepared("lock_balances", lockedRow)`
    SELECT ${lockedColumns}
    ${balancesOf(accountIds)}
    FOR NO KEY UPDATE OF store_balance
  `);

/** Locks those of the balances that no other transaction has locked, without waiting. */
export const lockFreeBalances = (
  transaction: DatabaseTransactionConnection,
  accountIds: readonly string[],
): Promise<readonly LockedBalance[]> =>
  transaction.any(sql.prepared("lock_free_balances", lockedRow)`
    SELECT ${lockedColumns}
    ${balancesOf(accountIds)}
    FOR NO KEY UPDATE OF store_balance SKIP LOCKED
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
    UPDATE store_balance
    SET last_record_at = latest.time
    FROM (SELECT max(time) AS time FROM unnest(${sql.array([...times], "timestamptz")}) AS given (time)) AS latest
    WHERE account_id = ${accountId} AND last_record_at < latest.time
  `);
};

export type NewBalanceEntry = {
  readonly createdAt: Date | string;
  readonly accountId: string;
  readonly kind: BalanceEntryKind;
  /** Negative for what was spent. */
  readonly amountCents: number;
  /** The balance after the entry. */
  readonly balanceCents: number;
  readonly quantity?: number | null;
  readonly registrationId?: string | null;
  readonly donationId?: string | null;
  readonly reference?: string | null;
  /** What a person wrote about the entry; empty for none. */
  readonly note: string;
};

/** What a store's balance is after its writes. */
export type NewBalance = {
  readonly accountId: string;
  readonly balanceCents: number;
  /** In microseconds since 1970. */
  readonly lastRecordUs: number;
};

/** The assignments that set a store's balance. One that rises is not depleted any more. */
const setBalance = (balanceCents: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  balance_cents = ${balanceCents},
  depleted_at = CASE WHEN ${balanceCents} <= store_balance.balance_cents THEN store_balance.depleted_at END
`;

/** Defines queries that set balances, as parts of a statement. */
export const balanceUpdates = (balances: readonly NewBalance[]): FragmentSqlToken => sql.fragment`
  updated_balance AS (
    UPDATE store_balance
    SET
      ${setBalance(sql.fragment`given.balance_cents`)},
      last_record_at = greatest(last_record_at, timestamptz 'epoch' + given.last_record_us * interval '1 microsecond')
    FROM json_to_recordset(${JSON.stringify(
      balances.map(({ accountId, balanceCents, lastRecordUs }) => ({
        account_id: accountId,
        balance_cents: balanceCents,
        last_record_us: lastRecordUs,
      })),
    )}) AS given (account_id uuid, balance_cents bigint, last_record_us bigint)
    WHERE store_balance.account_id = given.account_id
  )
`;

/** Defines queries that insert entries in order, with their notes, as parts of a statement. */
export const entryInserts = (entries: readonly NewBalanceEntry[]): FragmentSqlToken => sql.fragment`
  given_entry AS (
    SELECT place, value
    FROM json_array_elements(${JSON.stringify(
      entries.map((entry) => [
        entry.accountId,
        entry.kind,
        entry.amountCents,
        entry.balanceCents,
        entry.quantity,
        entry.registrationId,
        entry.donationId,
        entry.reference,
        entry.createdAt,
        entry.note,
      ]),
    )}) WITH ORDINALITY AS given (value, place)
  ),
  inserted_entry AS (
    INSERT INTO balance_entry
      (
        account_id, kind, amount_cents, balance_cents, quantity, registration_id, donation_id, reference, created_at
      )
    SELECT
      (value ->> 0)::uuid, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint, (value ->> 4)::bigint,
      (value ->> 5)::uuid, (value ->> 6)::uuid, value ->> 7, (value ->> 8)::timestamptz
    FROM given_entry
    ORDER BY place
    RETURNING id
  ),
  inserted_note AS (
    INSERT INTO balance_note (entry_id, note)
    SELECT inserted.id, value ->> 9
    -- The ids ascend in the order of the entries.
    FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM inserted_entry) AS inserted
    JOIN given_entry USING (place)
    WHERE value ->> 9 <> ''
  )
`;

/** Inserts an entry and sets the balance of its store, which is locked, to the one after it. */
export const insertBalanceEntry = async (
  transaction: DatabaseTransactionConnection,
  entry: NewBalanceEntry,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH ${entryInserts([entry])}, ${balanceUpdates([{ ...entry, lastRecordUs: 0 }])}
    SELECT
  `);
};

/** Sets the threshold of a store's balance. */
export const setLowBalance = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  lowBalanceCents: number,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE store_balance
    SET low_balance_cents = ${lowBalanceCents}
    WHERE account_id = ${accountId}
  `);
};

/** Marks a locked balance as one that did not cover a write. */
export const markBalanceDepleted = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  depletedAt: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE store_balance
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
  coalesce((SELECT note FROM balance_note WHERE entry_id = balance_entry.id), '') AS note,
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

const countRow = z.strictObject({ stores: safeInteger });

/** Counts the installed stores whose balance is low, by the rule of `isBalanceLow`. */
export const countLowBalances = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS stores
    FROM store
    JOIN store_balance USING (account_id)
    WHERE store.uninstalled_at IS NULL AND store_balance.balance_cents < store_balance.low_balance_cents
  `);
