import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { kindColumn } from "../records/columns.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";
import { totalSubtractions as donationTotalSubtractions } from "../charities/donationTotals.sql.ts";
import { keptOrderedCount } from "../planting/orders.sql.ts";
import { sumsOf, totalSubtractions } from "../registrations/totals.sql.ts";

const refundedUnitsRow = z.strictObject({
  id: z.uuid(),
  kind: kindColumn,
  count: safeInteger,
});

/**
 * Lists those of locked registrations of which more units are refunded than here, and how many. Registrations that were not
 * imported, or were refunded here, or have as many refunded units already, are left as they are.
 * @param refunds what is refunded in total; of several of one registration, the most counts
 */
export const listFurtherRefunded = (
  transaction: DatabaseTransactionConnection,
  refunds: readonly { readonly id: string; readonly refundedCount: number }[],
): Promise<readonly Readonly<z.output<typeof refundedUnitsRow>>[]> =>
  transaction.any(sql.type(refundedUnitsRow)`
    SELECT
      registration.id,
      registration.kind,
      max(given.refunded_count) - registration.refunded_count AS count
    FROM (${jsonRows({ id: "uuid", refundedCount: "int8" }, refunds)}) AS given
    JOIN registration ON registration.id = given.id
    -- So that each is looked up by its id, whatever the statistics say.
    WHERE registration.id = ANY(${sql.array(
      refunds.map(({ id }) => id),
      "uuid",
    )})
      AND ${isImported(sql.fragment`registration.id`)}
      AND registration.refunded_count < given.refunded_count
      AND NOT EXISTS (SELECT FROM refund WHERE refund.registration_id = registration.id)
    GROUP BY registration.id
  `);

export const raiseRefundedCounts = async (
  transaction: DatabaseTransactionConnection,
  refunded: readonly { readonly id: string; readonly count: number }[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH raised AS (
      UPDATE registration
      SET refunded_count = refunded_count + given.count, ordered_count = ${keptOrderedCount}
      FROM (${jsonRows({ id: "uuid", count: "int8" }, refunded)}) AS given
      WHERE registration.id = given.id
      RETURNING account_id, mode, kind, given.count, created_at
    ),
    ${totalSubtractions(sumsOf(sql.fragment`raised`))}
    SELECT
  `);
};

const refundedDonationRow = z.strictObject({
  id: z.uuid(),
  kind: z.literal("donation"),
  amountCents: safeInteger,
});

/** Marks imported donations as refunded, subtracts them from the totals, and returns those that were not refunded. */
export const markImportedDonationsRefunded = (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<readonly Readonly<z.output<typeof refundedDonationRow>>[]> =>
  transaction.any(sql.type(refundedDonationRow)`
    WITH before AS MATERIALIZED (
      SELECT id
      FROM donation
      WHERE id = ANY(${sql.array([...ids], "uuid")}) AND ${isImported(sql.fragment`id`)} AND NOT refunded
      ORDER BY id
      FOR UPDATE
    ),
    marked AS (
      UPDATE donation
      SET refunded = true
      FROM before
      WHERE donation.id = before.id
      RETURNING donation.*
    ),
    ${donationTotalSubtractions(sql.fragment`marked`)}
    SELECT id, 'donation' AS kind, amount_cents AS "amountCents" FROM marked
  `);
