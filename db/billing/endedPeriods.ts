import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

/**
 * Those meter events that are of a billing period which was over before an instant, as far as the mirrored periods tell:
 * the mirrored period may itself be over. Only live usage that Stripe bills has any.
 */
export const listMeterEventIdsOfEndedPeriods = (
  db: CommonQueryMethods,
  meterEventIds: readonly bigint[],
  before: Date,
): Promise<readonly bigint[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
    SELECT meter_event.id
    FROM meter_event
    JOIN account ON account.id = meter_event.account_id
    JOIN billing_period
      ON billing_period.account_id = account.id
      AND billing_period.meter = meter_event.meter
      AND billing_period.subscription_id = account.stripe_subscription_id
    WHERE meter_event.id = ANY(${sql.array([...meterEventIds], "int8")})
      AND meter_event.mode = 'live'
      AND meter_event.processor = 'stripe'
      AND (
        (ends_at <= ${before.toISOString()} AND to_timestamp(meter_event.second) < ends_at)
        OR (starts_at <= ${before.toISOString()} AND to_timestamp(meter_event.second) < starts_at)
      )
    ORDER BY meter_event.id
  `);
