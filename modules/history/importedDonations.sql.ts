import type { CommonQueryMethods } from "slonik";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import type { ImportedDonation } from "./importedRecords.rules.ts";
import { totalAdditions } from "../charities/donationTotals.sql.ts";
import { asTotalError } from "../registrations/totals.sql.ts";
import { sql } from "../../db/sql.ts";
import type { ImportedEntry, KnownRecord, RecordColumn } from "./importedEntries.sql.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import { entryRows, idRow, insertKeys, isNew, listKnown } from "./importedEntries.sql.ts";

type DonationEntry = ImportedEntry<ImportedDonation>;

const COLUMNS: readonly RecordColumn<ImportedDonation>[] = [
  ["amount_cents", "int8", ({ amountCents }) => amountCents],
  ["ein", "text", ({ ein }) => ein],
  ["nonprofit_id", "text", ({ nonprofitId }) => nonprofitId],
  ["charity_name", "text", ({ charityName }) => charityName],
  ["refunded", "bool", ({ refunded }) => refunded],
];

/**
 * Records a batch and its totals in one statement, all or nothing. An entry whose id, imported id or idempotency key
 * exists is skipped.
 *
 * Totals change in the order in which a new donation changes them, so that the two cannot deadlock.
 * @param provider the charity provider that knows the charities' ids
 * @returns the ids of the new donations
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const insertImportedDonations = async (
  db: CommonQueryMethods,
  owner: ImportOwner,
  batch: readonly DonationEntry[],
  provider: CharityProviderName,
): Promise<readonly string[]> => {
  const { accountId, mode } = owner;
  const { entries, columns } = entryRows(owner, batch, COLUMNS);
  try {
    return await db.anyFirst(sql.type(idRow)`
      WITH entry AS MATERIALIZED (${entries}),
      inserted AS (
        INSERT INTO donation (${columns}, account_id, mode, charity_provider)
        SELECT ${columns}, ${accountId}::uuid, ${mode}, ${provider}
        FROM entry
        WHERE ${isNew("donation", owner)}
        ORDER BY id, place
        ON CONFLICT DO NOTHING
        RETURNING id, amount_cents, refunded
      ),
      stored AS (${insertKeys("donation", owner)}),
      addition AS (
        SELECT ${accountId}::uuid AS account_id, ${mode} AS mode, amount_cents
        FROM inserted
        -- So that the totals are locked after the keys, as by clients.
        CROSS JOIN (SELECT count(*) AS stored_keys FROM stored) AS keys
        WHERE NOT refunded
      ),
      ${totalAdditions(sql.fragment`addition`)}
      SELECT id
      FROM inserted
    `);
  } catch (error) {
    throw asTotalError(error, "donor_total_safe", "amount_cents");
  }
};

/** Lists the recorded donations that have the ids or keys of a batch, and in which fields they differ from it. */
export const listKnownDonations = (
  db: CommonQueryMethods,
  owner: ImportOwner,
  batch: readonly DonationEntry[],
): Promise<readonly KnownRecord[]> =>
  listKnown(db, "donation", {
    entries: entryRows(owner, batch, COLUMNS).entries,
    owner,
    kind: null,
    columns: ["amount_cents", "ein", "nonprofit_id", "charity_name"],
    refund: {
      field: "refunded",
      difference: sql.fragment`
        CASE
          WHEN known.refunded = entry.refunded THEN NULL
          WHEN known.refunded THEN 'it is refunded here'
          ELSE 'further'
        END
      `,
    },
  });
