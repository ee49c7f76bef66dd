import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import type { AccountMode } from "../records/owner.rules.ts";
import type { ImportedRegistration } from "./importedRecords.rules.ts";
import { sql } from "../../db/sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { maximumJsonBytes } from "../registrations/presentRegistration.rules.ts";
import { asTotalError } from "../registrations/totals.sql.ts";
import type { ImportedEntry, KnownRecord } from "./importedEntries.sql.ts";
import { hasNewKey, idRow, insertKeys, listKnown, uuidOrNull } from "./importedEntries.sql.ts";

type RegistrationEntry = ImportedEntry<ImportedRegistration>;

/** The rows of a batch, with their places in it. */
const entries = (batch: readonly RegistrationEntry[]): FragmentSqlToken => sql.fragment`
  SELECT
    place,
    (value ->> 0)::uuid AS id,
    value ->> 1 AS imported_id,
    (value ->> 2)::uuid AS own_id,
    value ->> 3 AS kind,
    (value ->> 4)::bigint AS count,
    (value ->> 5)::bigint AS refunded_count,
    (value ->> 6)::double precision AS fractional_count,
    (value ->> 7)::timestamptz AS created_at,
    value ->> 8 AS idempotency_key,
    value ->> 9 AS attribution,
    value -> 10 AS metadata,
    value ->> 11 AS customer_name,
    value ->> 12 AS customer_email,
    value ->> 13 AS customer_id,
    value ->> 14 AS order_id,
    value ->> 15 AS notes,
    (value ->> 16)::bigint AS unit_price_cents,
    (value ->> 17)::integer AS json_bytes
  FROM jsonb_array_elements(${JSON.stringify(
    batch.map(({ id, record }) => [
      id,
      record.importedId,
      uuidOrNull(record.importedId),
      record.kind,
      record.count,
      record.refundedCount,
      record.fractionalCount,
      record.createdAt,
      record.idempotencyKey,
      record.attribution,
      record.metadata,
      record.customerName,
      record.customerEmail,
      record.customerId,
      record.orderId,
      record.notes,
      record.unitPriceCents,
      maximumJsonBytes(record),
    ]),
  )}::jsonb) WITH ORDINALITY AS given (value, place)
`;

/**
 * Records a batch and its totals in one statement, all or nothing. There is no usage, since another system billed it. An
 * entry whose id, imported id or idempotency key exists is skipped.
 *
 * An own id is looked up by nothing else, entry by entry. While the planner has no statistics of what was just imported,
 * with a join or a condition on the account it may read all registrations of the account.
 *
 * Rows and totals are inserted in the same order as those of new registrations, so that the two cannot deadlock.
 * @param isOrderedElsewhere whether another system has arranged the planting
 * @returns the ids of the new registrations
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const insertImportedRegistrations = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  batch: readonly RegistrationEntry[],
  isOrderedElsewhere: boolean,
): Promise<readonly string[]> => {
  const { accountId, mode } = owner;
  try {
    return await db.anyFirst(sql.type(idRow)`
      WITH entry AS MATERIALIZED (${entries(batch)}),
      to_order AS MATERIALIZED (
        SELECT DISTINCT ${accountId}::uuid AS account_id, ${mode}::text AS mode, kind
        FROM entry
        WHERE NOT ${isOrderedElsewhere}
      ),
      ${joinedOrders("to_order")},
      inserted AS (
        INSERT INTO registration (
          id, imported_id, account_id, mode, kind, count, refunded_count, fractional_count, created_at, idempotency_key,
          attribution, metadata, customer_name, customer_email, customer_id, order_id, notes, unit_price_cents, json_bytes,
          planting_order_id, tree_order_id
        )
        SELECT
          id, imported_id, ${accountId}::uuid, ${mode}, kind, count, refunded_count, fractional_count, created_at,
          idempotency_key, attribution, metadata, customer_name, customer_email, customer_id, order_id, notes,
          unit_price_cents, json_bytes, planting_order_id, ${treeOrderId}
        FROM entry
        LEFT JOIN joined_order USING (kind)
        WHERE (
          SELECT (account_id, mode, registration.kind) IS NOT DISTINCT FROM (${accountId}::uuid, ${mode}, entry.kind)
          FROM registration
          WHERE registration.id = entry.own_id
        ) IS NOT TRUE
          AND ${hasNewKey("registration", owner)}
        ORDER BY kind, id, place
        ON CONFLICT DO NOTHING
        RETURNING id, kind, count - refunded_count AS count, created_at
      ),
      stored AS (${insertKeys("registration", owner)}),
      addition AS (
        SELECT kind, period, sum(count)::bigint AS count
        FROM inserted
        -- So that the totals are locked after the keys, as by clients.
        CROSS JOIN (SELECT count(*) AS stored_keys FROM stored) AS keys
        CROSS JOIN LATERAL (
          VALUES ('all'), (to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'))
        ) AS span (period)
        GROUP BY kind, period
      ),
      new_total AS (
        INSERT INTO impact_total (account_id, mode, kind, period, total)
        SELECT ${accountId}::uuid, ${mode}, kind, period, count
        FROM addition
        ORDER BY kind, period
        ON CONFLICT (account_id, mode, kind, period) DO UPDATE SET total = impact_total.total + excluded.total
      )
      SELECT id
      FROM inserted
    `);
  } catch (error) {
    throw asTotalError(error, "impact_total_safe", "count");
  }
};

/** Lists the recorded registrations that have the ids or keys of a batch, and in which fields they differ from it. */
export const listKnownRegistrations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  batch: readonly RegistrationEntry[],
): Promise<readonly KnownRecord[]> =>
  listKnown(db, "registration", {
    entries: entries(batch),
    owner,
    kind: sql.fragment`entry.kind`,
    columns: ["count", "fractional_count", "notes", "unit_price_cents"],
    refund: {
      field: "refunded_count",
      difference: sql.fragment`
        CASE
          WHEN known.refunded_count = entry.refunded_count THEN NULL
          WHEN known.refunded_count > entry.refunded_count THEN 'it is higher here'
          WHEN EXISTS (SELECT FROM refund WHERE refund.registration_id = known.id) THEN 'units were refunded here, too'
          ELSE 'further'
        END
      `,
    },
  });
