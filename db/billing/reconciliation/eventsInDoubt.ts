import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../../sql.ts";
import { FAILED, meterEventColumns, meterEventRow } from "../meterEvents.ts";
import type { StoredMeterEvent } from "../meterEvents.ts";

/**
 * Records that usage which counts as not sent may have been: it has failed, was waived, or is a refund that is held. A retry
 * of it checks the processor's sums first.
 */
export const doubtUnsentEvents = async (db: CommonQueryMethods): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH unsent AS (
      SELECT id
      FROM meter_event
      WHERE (state IN (${FAILED}) OR state = 'waived' OR state = 'held')
        AND processor = 'stripe'
        AND NOT outcome_unknown
      -- Other statements lock rows in this order, too.
      ORDER BY id
      FOR NO KEY UPDATE
    )
    UPDATE meter_event
    SET outcome_unknown = true
    FROM unsent
    WHERE meter_event.id = unsent.id
  `);
};

/** Records the same of one event. */
export const doubtEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET outcome_unknown = true
    WHERE id = ${id} AND processor = 'stripe'
  `);
};

const customerRow = z.strictObject({ customerId: z.string().nullable() });

/**
 * Returns the customer of an account's latest live usage; null if that is the ledger's or there is none. The ledger's events
 * are not skipped, because all events of an account without others would be read. Where Stripe bills, they are the earlier ones.
 */
export const findLatestCustomer = (
  db: CommonQueryMethods,
  accountId: string,
): Promise<string | null> =>
  db.maybeOneFirst(sql.type(customerRow)`
    SELECT latest.customer_id AS "customerId"
    FROM (VALUES ('tree'), ('bottle')) AS stream (meter)
    CROSS JOIN LATERAL (
      SELECT customer_id, processor, second
      FROM meter_event
      WHERE account_id = ${accountId} AND mode = 'live' AND meter = stream.meter
      ORDER BY second DESC, sequence DESC
      LIMIT 1
    ) AS latest
    WHERE latest.processor = 'stripe'
    ORDER BY latest.second DESC
    LIMIT 1
  `);

/** Lists the blocked live events that were settled at a time. */
export const listBlockedEventsSettledAt = (
  db: CommonQueryMethods,
  settledAt: Date,
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE state = 'blocked' AND mode = 'live' AND settled_at = ${timestamp(settledAt)}
    ORDER BY id
  `);

/** Changes the time at which blocked live events were settled. */
export const redateBlockedEvents = async (
  transaction: DatabaseTransactionConnection,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH blocked AS (
      SELECT id
      FROM meter_event
      WHERE state = 'blocked' AND mode = 'live' AND settled_at = ${timestamp(from)}
      -- Other statements lock rows in this order, too.
      ORDER BY id
      FOR NO KEY UPDATE
    )
    UPDATE meter_event
    SET settled_at = ${timestamp(to)}
    FROM blocked
    WHERE meter_event.id = blocked.id
  `);
};
