import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";
import { FAILED, UNFINISHED } from "./meterEvents.ts";
import { factsOfRefund, shareRegistrations } from "./registrationFacts.ts";

const refundProgressRow = z.strictObject({ pending: z.boolean(), failed: z.boolean() });

/**
 * Returns how far the usage is that a registration's refunds take back: whether some of it is still to be sent, and whether
 * some of it is in a failed event. If neither, it has been sent or never will be.
 */
export const findRefundProgress = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<Readonly<z.output<typeof refundProgressRow>>> =>
  db.one(sql.type(refundProgressRow)`
    SELECT
      coalesce(
        bool_or(meter_event.state IS NULL OR meter_event.state IN (${UNFINISHED}, 'superseded')), false
      ) AS pending,
      coalesce(bool_or(meter_event.state IN (${FAILED})), false) AS failed
    FROM refund
    CROSS JOIN LATERAL ${factsOfRefund} AS usage_fact
    LEFT JOIN meter_event ON meter_event.id = usage_fact.meter_event_id
    WHERE refund.registration_id = ${registrationId}
  `);

const unitsRow = z.strictObject({ units: z.bigint().transform(Number) });

/**
 * Sums the units of a meter event whose refunds the processor has in other events, or may get. Refunds in a void event
 * count as well: they offset other usage, which was not sent.
 */
export const sumSentRefunds = (db: CommonQueryMethods, meterEventId: bigint): Promise<number> =>
  db.oneFirst(sql.type(unitsRow)`
    SELECT coalesce(sum(-taken_back.quantity), 0)::bigint AS units
    FROM (
      SELECT DISTINCT refund.id, refund.quantity, refund.meter_event_id
      FROM usage_fact AS counted
      JOIN usage_fact AS refund ON ${shareRegistrations("refund", "counted")}
      WHERE counted.meter_event_id = ${meterEventId}
        AND counted.refund_id IS NULL
        AND refund.refund_id IS NOT NULL
    ) AS taken_back
    JOIN meter_event ON meter_event.id = taken_back.meter_event_id
    WHERE meter_event.id <> ${meterEventId}
      AND meter_event.state IN (${UNFINISHED}, 'delivered', 'void', 'blocked')
  `);
