import type { DatabaseTransactionConnection } from "slonik";
import { totalSubtractions as donationTotalSubtractions } from "../charities/donationTotals.sql.ts";
import { keptOrderedCount } from "../planting/orders.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { sumsOf, totalSubtractions } from "../registrations/totals.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { sql } from "../../db/sql.ts";

export const lockRecords = (
  transaction: DatabaseTransactionConnection,
  table: RecordTable,
  ids: readonly string[],
) =>
  transaction.query(sql.typeAlias("void")`
    SELECT
    FROM ${sql.identifier([table])}
    WHERE id = ANY(${sql.array(ids, "uuid")})
    ORDER BY id
    FOR UPDATE
  `);

/** Refunds more of locked records, and subtracts it from the totals. A donation is refunded as a whole. */
export const raiseRefunds = async (
  transaction: DatabaseTransactionConnection,
  table: RecordTable,
  refunded: readonly { readonly id: string; readonly count: number }[],
) => {
  const given = jsonRows({ id: "uuid", count: "int8" }, refunded);
  const raised = sql.fragment`raised`;
  await transaction.query(
    table === "donation"
      ? sql.typeAlias("void")`
          WITH raised AS (
            UPDATE donation
            SET refunded = true
            FROM (${given}) AS given
            WHERE donation.id = given.id
            RETURNING account_id, mode, amount_cents
          ),
          ${donationTotalSubtractions(raised)}
          SELECT
        `
      : sql.typeAlias("void")`
          WITH raised AS (
            UPDATE registration
            SET refunded_count = refunded_count + given.count, ordered_count = ${keptOrderedCount}
            FROM (${given}) AS given
            WHERE registration.id = given.id
            RETURNING account_id, mode, kind, given.count, created_at
          ),
          ${totalSubtractions(sumsOf(raised))}
          SELECT
        `,
  );
};
