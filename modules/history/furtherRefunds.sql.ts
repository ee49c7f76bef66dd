import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { kindColumn } from "../records/columns.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";
import { keptOrderedCount } from "../planting/orders.sql.ts";

const refundedUnitsRow = z.strictObject({
  id: z.uuid(),
  kind: kindColumn,
  count: safeInteger,
  registeredAt: z.date(),
});

/**
 * Lists those of locked registrations of which more units are refunded than here, and how many. Registrations that were not
 * imported, or were refunded here, or have as many refunded units already, are left as they are.
 * @param refunds what is refunded in total
 */
export const listFurtherRefunded = (
  transaction: DatabaseTransactionConnection,
  refunds: readonly { readonly id: string; readonly refundedCount: number }[],
): Promise<readonly Readonly<z.output<typeof refundedUnitsRow>>[]> =>
  transaction.any(sql.type(refundedUnitsRow)`
    SELECT
      registration.id,
      registration.kind,
      given."refundedCount" - registration.refunded_count AS count,
      registration.created_at AS "registeredAt"
    FROM json_to_recordset(${JSON.stringify(refunds)}) AS given (id uuid, "refundedCount" bigint)
    JOIN registration ON registration.id = given.id
    -- So that each is looked up by its id, whatever the statistics say.
    WHERE registration.id = ANY(${sql.array(
      refunds.map(({ id }) => id),
      "uuid",
    )})
      AND ${isImported(sql.fragment`registration.id`)}
      AND registration.refunded_count < given."refundedCount"
      AND NOT EXISTS (SELECT FROM refund WHERE refund.registration_id = registration.id)
  `);

/** Raises the refunded units of registrations. */
export const raiseRefundedCounts = async (
  transaction: DatabaseTransactionConnection,
  refunded: readonly { readonly id: string; readonly count: number }[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE registration
    SET refunded_count = refunded_count + (value ->> 1)::bigint, ordered_count = ${keptOrderedCount}
    FROM json_array_elements(${JSON.stringify(refunded.map(({ id, count }) => [id, count]))}) AS value
    WHERE registration.id = (value ->> 0)::uuid
  `);
};

const refundedDonationRow = z.strictObject({ id: z.uuid(), amountCents: safeInteger });

/** Marks imported donations as refunded, and returns those that were not. */
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
    )
    UPDATE donation
    SET refunded = true
    FROM before
    WHERE donation.id = before.id
    RETURNING donation.id, donation.amount_cents AS "amountCents"
  `);
