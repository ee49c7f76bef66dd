import type { CommonQueryMethods } from "slonik";
import type { ImportedRegistration } from "./importedRecords.rules.ts";
import { sql } from "../../db/sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { maximumJsonBytes } from "../registrations/presentRegistration.rules.ts";
import { asTotalError } from "../registrations/totals.sql.ts";
import type { ImportedEntry, KnownRecord, RecordColumn } from "./importedEntries.sql.ts";
import type { ImportOwner } from "./importedRecords.rules.ts";
import { entryRows, idRow, insertKeys, isNew, listKnown } from "./importedEntries.sql.ts";

type RegistrationEntry = ImportedEntry<ImportedRegistration>;

const COLUMNS: readonly RecordColumn<ImportedRegistration>[] = [
  ["kind", "text", ({ kind }) => kind],
  ["count", "int8", ({ count }) => count],
  ["refunded_count", "int8", ({ refundedCount }) => refundedCount],
  ["fractional_count", "float8", ({ fractionalCount }) => fractionalCount],
  ["notes", "text", ({ notes }) => notes],
  ["unit_price_cents", "int8", ({ unitPriceCents }) => unitPriceCents],
  ["json_bytes", "int4", maximumJsonBytes],
];

/**
 * Records a batch and its totals in one statement, all or nothing. There is no usage, since another system billed it. An
 * entry whose id, imported id or idempotency key exists is skipped.
 *
 * Rows and totals are inserted in the same order as those of new registrations, so that the two cannot deadlock.
 * @param isOrderedElsewhere whether another system has arranged the planting
 * @returns the ids of the new registrations
 * @throws DomainError request_invalid if a total would exceed a safe integer
 */
export const insertImportedRegistrations = async (
  db: CommonQueryMethods,
  owner: ImportOwner,
  batch: readonly RegistrationEntry[],
  isOrderedElsewhere: boolean,
): Promise<readonly string[]> => {
  const { accountId, mode } = owner;
  const { entries, columns } = entryRows(owner, batch, COLUMNS);
  try {
    return await db.anyFirst(sql.type(idRow)`
      WITH entry AS MATERIALIZED (${entries}),
      to_order AS MATERIALIZED (
        SELECT DISTINCT ${accountId}::uuid AS account_id, ${mode}::text AS mode, kind
        FROM entry
        WHERE NOT ${isOrderedElsewhere}
      ),
      ${joinedOrders("to_order")},
      inserted AS (
        INSERT INTO registration (${columns}, account_id, mode, planting_order_id, tree_order_id)
        SELECT ${columns}, ${accountId}::uuid, ${mode}, planting_order_id, ${treeOrderId}
        FROM entry
        LEFT JOIN joined_order USING (kind)
        WHERE ${isNew("registration", owner)}
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
  owner: ImportOwner,
  batch: readonly RegistrationEntry[],
): Promise<readonly KnownRecord[]> =>
  listKnown(db, "registration", {
    entries: entryRows(owner, batch, COLUMNS).entries,
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
