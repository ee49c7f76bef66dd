import type { DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { kindColumn } from "../records/columns.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { isFoundOwn, isImported } from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { keptOrderedCount } from "../planting/orders.sql.ts";
import { lockRegistrations } from "../registrations/refunds.sql.ts";

const refundedUnitsRow = z.strictObject({
  id: z.uuid(),
  kind: kindColumn,
  count: safeInteger,
  registeredAt: z.date(),
});

/** Units of an imported registration that another system refunded after the import. */
type RefundedUnits = Readonly<z.output<typeof refundedUnitsRow>>;

/** The condition that a record is one of the given records of the query that belong to an account and mode. */
const isGiven = (table: RecordTable, owner: AccountMode): FragmentSqlToken => {
  const id = sql.identifier([table, "id"]);
  return sql.fragment`${id} = ANY(ARRAY(SELECT id FROM given)) AND ${isFoundOwn(table, owner)}`;
};

/**
 * Locks imported registrations, and lists those of which more units are refunded than here, and how many. Registrations that
 * were refunded here, or have as many refunded units already, are left as they are.
 * @param refunds what is refunded in total
 */
export const lockFurtherRefunded = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  refunds: readonly { readonly id: string; readonly refundedCount: number }[],
): Promise<readonly RefundedUnits[]> => {
  // The statement that waits for a concurrent refund would not see it.
  await lockRegistrations(
    transaction,
    refunds.map(({ id }) => id),
  );
  return transaction.any(sql.type(refundedUnitsRow)`
    WITH given AS MATERIALIZED (
      SELECT (value ->> 0)::uuid AS id, (value ->> 1)::bigint AS refunded_count
      FROM json_array_elements(${JSON.stringify(refunds.map(({ id, refundedCount }) => [id, refundedCount]))}) AS value
    )
    SELECT
      registration.id,
      registration.kind,
      given.refunded_count - registration.refunded_count AS count,
      registration.created_at AS "registeredAt"
    FROM registration
    JOIN given ON given.id = registration.id
    WHERE ${isGiven("registration", owner)}
      AND ${isImported(sql.fragment`registration.id`)}
      AND registration.refunded_count < given.refunded_count
      AND NOT EXISTS (SELECT FROM refund WHERE refund.registration_id = registration.id)
  `);
};

/** Raises the refunded units of registrations. */
export const raiseRefundedCounts = async (
  transaction: DatabaseTransactionConnection,
  refunded: readonly Pick<RefundedUnits, "id" | "count">[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE registration
    SET refunded_count = refunded_count + (value ->> 1)::bigint, ordered_count = ${keptOrderedCount}
    FROM json_array_elements(${JSON.stringify(refunded.map(({ id, count }) => [id, count]))}) AS value
    WHERE registration.id = (value ->> 0)::uuid
  `);
};

const refundedDonationRow = z.strictObject({
  id: z.uuid(),
  amountCents: safeInteger,
  createdAt: z.date(),
});

/** An imported donation that another system refunded after the import. */
type RefundedDonation = Readonly<z.output<typeof refundedDonationRow>>;

/** Marks imported donations as refunded, and returns those that were not. */
export const markImportedDonationsRefunded = (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  ids: readonly string[],
): Promise<readonly RefundedDonation[]> =>
  transaction.any(sql.type(refundedDonationRow)`
    WITH given AS MATERIALIZED (
      SELECT id FROM unnest(${sql.array([...ids], "uuid")}) AS id
    ),
    before AS MATERIALIZED (
      SELECT donation.id
      FROM donation
      JOIN given ON given.id = donation.id
      WHERE ${isGiven("donation", owner)}
        AND ${isImported(sql.fragment`donation.id`)}
        AND NOT donation.refunded
      ORDER BY donation.id
      FOR UPDATE OF donation
    )
    UPDATE donation
    SET refunded = true
    FROM before
    WHERE donation.id = before.id
    RETURNING donation.id, donation.amount_cents AS "amountCents", donation.created_at AS "createdAt"
  `);
