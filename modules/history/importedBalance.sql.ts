import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ImportedBalanceEntry } from "./importedBalance.rules.ts";
import { BALANCE_ENTRY_KINDS } from "../stores/stores.rules.ts";
import { safeInteger, inMicroseconds, sql } from "../../db/sql.ts";
import { anyAccount } from "../records/ownedRecords.sql.ts";
import { setBalance } from "../stores/balances.sql.ts";

const knownEntryRow = z.strictObject({
  importedId: z.string().nullable(),
  kind: z.enum(BALANCE_ENTRY_KINDS),
  amountCents: safeInteger,
  quantity: safeInteger.nullable(),
  reference: z.string().nullable(),
  createdAt: z.string(),
});

/** An entry of a store's ledger; its imported id is null if it was made here. */
export type KnownBalanceEntry = Readonly<z.output<typeof knownEntryRow>>;

/** Lists a store's entries that have the imported ids or the references of the given ones. */
export const listKnownBalanceEntries = (
  db: CommonQueryMethods,
  storeId: string,
  entries: readonly ImportedBalanceEntry[],
): Promise<readonly KnownBalanceEntry[]> => {
  const columns = sql.fragment`
    imported_id AS "importedId", kind, amount_cents AS "amountCents", quantity, reference,
    ${inMicroseconds(sql.fragment`created_at`)} AS "createdAt"
  `;
  const withValues = (column: string, values: readonly string[]) => sql.fragment`
    unnest(${sql.array([...values], "text")}) AS given (value)
    CROSS JOIN LATERAL (
      SELECT *
      FROM balance_entry
      WHERE account_id = ${anyAccount(storeId)} AND ${sql.identifier([column])} = given.value
      LIMIT 1
    ) AS entry
  `;
  const ids = entries.map(({ importedId }) => importedId);
  const references = entries.flatMap(({ reference }) => (reference === null ? [] : [reference]));
  return db.any(sql.type(knownEntryRow)`
    SELECT ${columns}
    FROM ${withValues("imported_id", ids)}
    UNION
    SELECT ${columns}
    FROM ${withValues("reference", references)}
  `);
};

/** Inserts entries in order, and sets the store's balance to the one after the last. The balance must be locked. */
export const insertImportedBalanceEntries = async (
  transaction: DatabaseTransactionConnection,
  storeId: string,
  entries: readonly (ImportedBalanceEntry & { readonly balanceCents: number })[],
): Promise<void> => {
  const last = entries.at(-1);
  if (!last) {
    return;
  }
  await transaction.query(sql.typeAlias("void")`
    WITH balance AS (
      UPDATE store
      SET ${setBalance(sql.fragment`${last.balanceCents}::bigint`)}
      WHERE account_id = ${storeId}
    )
    INSERT INTO balance_entry (account_id, imported_id, kind, amount_cents, balance_cents, quantity, reference, created_at, note)
    SELECT
      ${storeId}::uuid, value ->> 0, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint, (value ->> 4)::bigint,
      value ->> 5, (value ->> 6)::timestamptz, value ->> 7
    FROM json_array_elements(${JSON.stringify(
      entries.map((entry) => [
        entry.importedId,
        entry.kind,
        entry.amountCents,
        entry.balanceCents,
        entry.quantity,
        entry.reference,
        entry.createdAt,
        entry.note,
      ]),
    )}) WITH ORDINALITY AS given (value, place)
    ORDER BY place
  `);
};

const ledgerRow = z.strictObject({
  entries: safeInteger,
  importedCents: safeInteger,
  balanceCents: safeInteger,
  sumCents: safeInteger,
});

/** Returns what was imported of a store's ledger, and its balance; zeros for an account without a balance. */
export const readImportedLedger = (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
): Promise<Readonly<z.output<typeof ledgerRow>>> =>
  db.one(sql.type(ledgerRow)`
    SELECT
      count(*) FILTER (WHERE imported_id IS NOT NULL) AS entries,
      coalesce(
        (
          SELECT balance_cents
          FROM balance_entry
          WHERE account_id = ${accountId} AND imported_id IS NOT NULL
          ORDER BY id DESC
          LIMIT 1
        ),
        0
      )::bigint AS "importedCents",
      coalesce(
        (SELECT balance_cents FROM store WHERE account_id = ${accountId} AND ${mode} = 'live'), 0
      )::bigint AS "balanceCents",
      coalesce(sum(amount_cents), 0)::bigint AS "sumCents"
    FROM balance_entry
    WHERE account_id = ${accountId} AND ${mode} = 'live'
  `);
