import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { BALANCE_ENTRY_KINDS } from "./stores.rules.ts";
import { safeInteger, inMicroseconds, sql } from "../../db/sql.ts";
import { anyAccount, newestOf } from "../records/ownedRecords.sql.ts";

/** An entry of a ledger, as clients see it. */
const entryRow = z.strictObject({
  id: z.bigint().transform(String),
  kind: z.enum(BALANCE_ENTRY_KINDS),
  amount_cents: safeInteger,
  balance_cents: safeInteger,
  quantity: safeInteger.nullable(),
  record_id: z.string().nullable(),
  reference: z.string().nullable(),
  note: z.string(),
  /** In microseconds; of a payment, that of its record. */
  created_at: z.string(),
});

type BalanceEntry = Readonly<z.output<typeof entryRow>>;

const selectEntries = sql.fragment`
  SELECT
    id,
    kind,
    amount_cents,
    balance_cents,
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
    ) AS record_id,
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
    ${inMicroseconds(sql.identifier(["balance_entry", "created_at"]))} AS created_at
  FROM balance_entry
`;

/** Returns the newest entries, or the newest ones before the entry `after`. */
export const listBalanceEntries = (
  db: CommonQueryMethods,
  accountId: string,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly BalanceEntry[]> => {
  const newest = newestOf(accountId, after);
  return db.any(sql.type(entryRow)`
    ${selectEntries}
    WHERE ${newest.condition}
    ${newest.order}
    LIMIT ${limit}
  `);
};

export const findBalanceEntryByReference = (
  db: CommonQueryMethods,
  accountId: string,
  reference: string,
): Promise<BalanceEntry | null> =>
  db.maybeOne(sql.type(entryRow)`
    ${selectEntries}
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
