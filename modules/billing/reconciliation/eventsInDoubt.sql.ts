import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { KINDS } from "../../records/owner.rules.ts";
import { sql, timestamp, values } from "../../../db/sql.ts";
import { FAILED, inDoubt, meterEventColumns, meterEventRow } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { isOfStream } from "./reportedStreams.sql.ts";
import type { CustomerStream } from "./reportedStreams.sql.ts";
import type { Span } from "../usage.rules.ts";

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

const locatedRow = meterEventRow.extend({ currentCustomerId: z.string().nullable() });

/**
 * Lists the usage in doubt of a stream in a span, and that of the account which has the stream's customer now, whatever
 * customers it is of, with the present customers of their accounts.
 */
export const listEventsInDoubt = (
  db: CommonQueryMethods,
  stream: CustomerStream,
  { start, end }: Span,
): Promise<readonly Readonly<z.output<typeof locatedRow>>[]> =>
  db.any(sql.type(locatedRow)`
    SELECT ${meterEventColumns}, account.stripe_customer_id AS "currentCustomerId"
    FROM (
      SELECT meter_event.id
      FROM meter_event
      WHERE ${isOfStream(stream)} AND second >= ${start} AND second < ${end}
      UNION
      SELECT meter_event.id
      FROM account
      JOIN meter_event ON meter_event.account_id = account.id
      WHERE account.stripe_customer_id = ${stream.customerId}
        AND meter_event.processor = ${stream.processor}
        AND meter_event.mode = ${stream.mode}
        AND meter_event.kind = ${stream.kind}
        AND meter_event.second >= ${start}
        AND meter_event.second < ${end}
    ) AS found
    JOIN meter_event ON meter_event.id = found.id
    JOIN account ON account.id = meter_event.account_id
    WHERE ${inDoubt}
    ORDER BY meter_event.id
  `);

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
    FROM ${values(KINDS)} AS stream (kind)
    CROSS JOIN LATERAL (
      SELECT customer_id, processor, second
      FROM meter_event
      WHERE account_id = ${accountId} AND mode = 'live' AND kind = stream.kind
      ORDER BY second DESC, sequence DESC
      LIMIT 1
    ) AS latest
    WHERE latest.processor = 'stripe'
    ORDER BY latest.second DESC
    LIMIT 1
  `);

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

/** Changes the time at which live events were settled that were blocked at a time or since. */
export const redateBlockedEvents = async (
  transaction: DatabaseTransactionConnection,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH blocked AS (
      SELECT id
      FROM meter_event
      WHERE state = 'blocked' AND mode = 'live' AND settled_at >= ${timestamp(from)}
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
