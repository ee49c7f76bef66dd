import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { balanceEntryJson } from "./storeRecords.rules.ts";
import { inMicroseconds, sql } from "../../db/sql.ts";
import { anyAccount, newestOf } from "../records/ownedRecords.sql.ts";

const jsonRow = z.strictObject({ entry: balanceEntryJson });

/** An entry of a ledger as clients see it, a `BalanceEntry`. A payment has the time of its record. */
const selectEntries = sql.fragment`
  SELECT json_build_object(
    'id', id::text,
    'kind', kind,
    'amount_cents', amount_cents,
    'balance_cents', balance_cents,
    'quantity', quantity,
    'record_id', coalesce(
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
    ),
    'reference', reference,
    'note', coalesce(
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
    ),
    'created_at', ${inMicroseconds(sql.identifier(["balance_entry", "created_at"]))}
  ) AS entry
  FROM balance_entry
`;

/** Returns the newest entries, or the newest ones before the entry `after`. */
export const listBalanceEntries = (
  db: CommonQueryMethods,
  accountId: string,
  { after, limit }: { readonly after: string | null; readonly limit: number },
) => {
  const newest = newestOf(accountId, after);
  return db.anyFirst(sql.type(jsonRow)`
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
) =>
  db.maybeOneFirst(sql.type(jsonRow)`
    ${selectEntries}
    WHERE account_id = ${anyAccount(accountId)} AND reference = ${reference}
  `);

const existsRow = z.strictObject({ exists: z.boolean() });

/** Returns whether any store's ledger has an entry with a reference. */
export const isReferenceUsed = (db: CommonQueryMethods, reference: string) =>
  db.oneFirst(sql.type(existsRow)`
    SELECT EXISTS (
      SELECT
      FROM store
      JOIN balance_entry USING (account_id)
      WHERE balance_entry.reference = ${reference}
    ) AS exists
  `);
