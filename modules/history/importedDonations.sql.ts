import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ImportedDonation } from "./importedRecords.rules.ts";
import { asTotalError } from "../registrations/totals.sql.ts";
import { sql } from "../../db/sql.ts";
import type { ImportedEntry, KnownRecord } from "./importedEntries.sql.ts";
import { hasNewKey, idRow, insertKeys, listKnown, uuidOrNull } from "./importedEntries.sql.ts";

type DonationEntry = ImportedEntry<ImportedDonation>;

/** The rows of a batch, with their places in it. */
const entries = (batch: readonly DonationEntry[]): FragmentSqlToken => sql.fragment`
  SELECT
    place,
    (value ->> 0)::uuid AS id,
    value ->> 1 AS imported_id,
    (value ->> 2)::uuid AS own_id,
    (value ->> 3)::bigint AS amount_cents,
    value ->> 4 AS ein,
    value ->> 5 AS nonprofit_id,
    value ->> 6 AS charity_name,
    (value ->> 7)::timestamptz AS created_at,
    (value ->> 8)::boolean AS refunded,
    value ->> 9 AS idempotency_key,
    value ->> 10 AS attribution,
    value -> 11 AS metadata,
    value ->> 12 AS customer_name,
    value ->> 13 AS customer_email,
    value ->> 14 AS customer_id,
    value ->> 15 AS order_id
  FROM jsonb_array_elements(${JSON.stringify(
    batch.map(({ id, record }) => [
      id,
      record.importedId,
      uuidOrNull(record.importedId),
      record.amountCents,
      record.ein,
      record.nonprofitId,
      record.charityName,
      record.createdAt,
      record.refunded,
      record.idempotencyKey,
      record.attribution,
      record.metadata,
      record.customerName,
      record.customerEmail,
      record.customerId,
      record.orderId,
    ]),
  )}::jsonb) WITH ORDINALITY AS given (value, place)
`;

/**
 * Records a batch and its totals in one statement, all or nothing. An entry whose id, imported id or idempotency key
 * exists is skipped.
 *
 * An own id is looked up by itself; see `insertImportedRegistrations`.
 *
 * Totals change in the order in which a new donation changes them, so that the two cannot deadlock.
 * @param provider the charity provider that knows the charities' ids
 * @returns the ids of the new donations
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const insertImportedDonations = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  batch: readonly DonationEntry[],
  provider: CharityProviderName,
): Promise<readonly string[]> => {
  const { accountId, mode } = owner;
  try {
    return await db.anyFirst(sql.type(idRow)`
      WITH entry AS MATERIALIZED (${entries(batch)}),
      inserted AS (
        INSERT INTO donation (
          id, imported_id, account_id, mode, amount_cents, ein, nonprofit_id, charity_provider, charity_name, created_at,
          refunded, idempotency_key, attribution, metadata, customer_name, customer_email, customer_id, order_id
        )
        SELECT
          id, imported_id, ${accountId}::uuid, ${mode}, amount_cents, ein, nonprofit_id, ${provider}, charity_name,
          created_at, refunded, idempotency_key, attribution, metadata, customer_name, customer_email, customer_id,
          order_id
        FROM entry
        WHERE (
          SELECT (account_id, mode) IS NOT DISTINCT FROM (${accountId}::uuid, ${mode})
          FROM donation
          WHERE donation.id = entry.own_id
        ) IS NOT TRUE
          AND ${hasNewKey("donation", owner)}
        ORDER BY id, place
        ON CONFLICT DO NOTHING
        RETURNING id, amount_cents, created_at, refunded
      ),
      stored AS (${insertKeys("donation", owner)}),
      addition AS (
        SELECT period, count(*) AS count, sum(amount_cents)::bigint AS amount_cents
        FROM inserted
        -- So that the totals are locked after the keys, as by clients.
        CROSS JOIN (SELECT count(*) AS stored_keys FROM stored) AS keys
        CROSS JOIN LATERAL (
          VALUES ('all'), (to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'))
        ) AS span (period)
        WHERE NOT refunded
        GROUP BY period
      ),
      new_total AS (
        INSERT INTO donation_total (account_id, mode, period, count, amount_cents)
        SELECT ${accountId}::uuid, ${mode}, period, count, amount_cents
        FROM addition
        ORDER BY period
        ON CONFLICT (account_id, mode, period) DO UPDATE
        SET
          count = donation_total.count + excluded.count,
          amount_cents = donation_total.amount_cents + excluded.amount_cents
      )
      SELECT id
      FROM inserted
    `);
  } catch (error) {
    throw asTotalError(error, "donation_total_safe", "amount_cents");
  }
};

/** Lists the recorded donations that have the ids or keys of a batch, and in which fields they differ from it. */
export const listKnownDonations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  batch: readonly DonationEntry[],
): Promise<readonly KnownRecord[]> =>
  listKnown(db, "donation", {
    entries: entries(batch),
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
