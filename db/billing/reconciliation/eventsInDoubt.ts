import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
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
