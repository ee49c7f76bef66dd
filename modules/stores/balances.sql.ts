import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { BALANCE_ENTRY_KINDS } from "./stores.rules.ts";
import type { BalanceEntryKind, Prices } from "./stores.rules.ts";
import { safeInteger, inMicroseconds, nothing, sql, timestamp } from "../../db/sql.ts";
import { anyAccount, newestOf } from "../records/ownedRecords.sql.ts";
import { priceColumns, priceFields } from "./stores.sql.ts";

const lockedRow = z
  .strictObject({
    accountId: z.uuid(),
    domain: z.string(),
    balanceCents: safeInteger,
    lowBalanceCents: safeInteger,
    isDepleted: z.boolean(),
    ...priceFields,
  })
  .transform(({ treePriceCents, bottlePriceCents, ...balance }) => ({
    ...balance,
    prices: { tree: treePriceCents, bottle: bottlePriceCents } satisfies Prices,
  }));

/** A store's balance and prices while no other transaction can spend. */
export type LockedBalance = Readonly<z.output<typeof lockedRow>>;

const lockedColumns = sql.fragment`
  store_balance.account_id AS "accountId",
  store.domain,
  store_balance.balance_cents AS "balanceCents",
  store_balance.low_balance_cents AS "lowBalanceCents",
  store_balance.depleted_at IS NOT NULL AS "isDepleted",
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
  transaction.any(sql.type(lockedRow)`
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

/** Limits how long each statement of the transaction waits for a lock. */
export const limitLockWait = async (
  transaction: DatabaseTransactionConnection,
  timeoutMs: number,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    SELECT FROM set_config('lock_timeout', ${String(timeoutMs)}, true)
  `);
};

/** The earliest time of a store's next record: later than all others, even if the clock was set back. */
export const nextRecordTime = (now: Date): FragmentSqlToken =>
  sql.fragment`greatest(${timestamp(now)}, store_balance.last_record_at + interval '1 microsecond')`;

const recordTimeRow = z.strictObject({ createdAt: z.string() });

/**
 * Returns the times of new records, in microseconds. They ascend, and no other record of their store has one of them.
 * @param accountIds the store of each record. Their balances must be locked
 */
export const takeRecordTimes = (
  transaction: DatabaseTransactionConnection,
  accountIds: readonly string[],
  now: Date,
): Promise<readonly string[]> =>
  transaction.anyFirst(sql.prepared("take_record_times", recordTimeRow)`
    WITH record AS MATERIALIZED (
      SELECT place, value::uuid AS account_id, row_number() OVER (PARTITION BY value ORDER BY place) AS number
      FROM json_array_elements_text(${JSON.stringify(accountIds)}::json) WITH ORDINALITY AS given (value, place)
    ),
    taken AS (
      UPDATE store_balance
      SET last_record_at = ${nextRecordTime(now)} + (added.records - 1) * interval '1 microsecond'
      FROM (SELECT account_id, max(number) AS records FROM record GROUP BY account_id) AS added
      WHERE store_balance.account_id = added.account_id
      RETURNING store_balance.account_id, last_record_at, records
    )
    SELECT
      ${inMicroseconds(
        sql.fragment`(taken.last_record_at - (taken.records - record.number) * interval '1 microsecond')`,
      )} AS "createdAt"
    FROM record
    JOIN taken ON taken.account_id = record.account_id
    ORDER BY record.place
  `);

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
  readonly quantity?: number;
  readonly registrationId?: string;
  readonly donationId?: string;
  readonly reference?: string | null;
};

/** Adds the note to the store's latest entry, under the lock of its balance. */
const insertNote = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  note: string,
): Promise<void> => {
  await transaction.query(sql.prepared("insert_balance_note", nothing)`
    INSERT INTO balance_note (entry_id, note)
    SELECT id, ${note}
    FROM balance_entry
    WHERE account_id = ${accountId}
    ORDER BY id DESC
    LIMIT 1
  `);
};

/** The assignments that set a store's balance. One that rises is not depleted any more. */
export const setBalance = (balanceCents: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  balance_cents = ${balanceCents},
  depleted_at = CASE WHEN ${balanceCents} <= store_balance.balance_cents THEN store_balance.depleted_at END
`;

/** Inserts entries in order and sets each store's balance to the one after its last entry. */
export const insertBalanceEntries = async (
  transaction: DatabaseTransactionConnection,
  entries: readonly NewBalanceEntry[],
): Promise<void> => {
  if (entries.length === 0) {
    return;
  }
  const last = new Map(entries.map(({ accountId, balanceCents }) => [accountId, balanceCents]));
  await transaction.query(sql.prepared("insert_balance_entries", nothing)`
    WITH balance AS (
      UPDATE store_balance
      SET ${setBalance(sql.fragment`latest.balance_cents`)}
      FROM json_to_recordset(${JSON.stringify(
        [...last].map(([account_id, balance_cents]) => ({ account_id, balance_cents })),
      )}) AS latest (account_id uuid, balance_cents bigint)
      WHERE store_balance.account_id = latest.account_id
    )
    INSERT INTO balance_entry
      (
        account_id, kind, amount_cents, balance_cents, quantity, registration_id, donation_id, reference, created_at
      )
    SELECT
      (value ->> 0)::uuid, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint, (value ->> 4)::bigint,
      (value ->> 5)::uuid, (value ->> 6)::uuid, value ->> 7, (value ->> 8)::timestamptz
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
      ]),
    )}) WITH ORDINALITY AS given (value, place)
    ORDER BY place
  `);
};

/**
 * Inserts an entry and sets the store's balance to the one after it.
 * @param entry.note what a person wrote about the entry; empty for none
 */
export const insertBalanceEntry = async (
  transaction: DatabaseTransactionConnection,
  { note, ...entry }: NewBalanceEntry & { readonly note: string },
): Promise<void> => {
  await insertBalanceEntries(transaction, [entry]);
  if (note !== "") {
    await insertNote(transaction, entry.accountId, note);
  }
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
