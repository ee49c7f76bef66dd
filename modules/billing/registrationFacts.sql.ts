import type { FragmentSqlToken, CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";

/*
 * How queries get from a registration to its usage facts and back. The registrations of one stream and second that one
 * statement recorded share a fact, and the facts of their refunds have the number of that statement, too.
 */

/** The condition that two usage facts are of registrations that were recorded together. */
export const shareRegistrations = (one: string, other: string): FragmentSqlToken => {
  const columns = ["usage_batch", "account_id", "mode", "kind", "second"].map(
    (column) => sql.fragment`${sql.identifier([one, column])} = ${sql.identifier([other, column])}`,
  );
  return sql.fragment`(${sql.join(columns, sql.fragment` AND `)})`;
};

/** The condition that a usage fact counts a registration of the query, together with those recorded with it. */
const countsRegistration = sql.fragment`
  usage_fact.usage_batch = registration.usage_batch
  AND usage_fact.account_id = registration.account_id
  AND usage_fact.mode = registration.mode
  AND usage_fact.kind = registration.kind
  AND usage_fact.second = floor(extract(epoch FROM registration.created_at))::bigint
  AND usage_fact.refund_id IS NULL
`;

/**
 * The usage facts of a refund of the query, as a table. Without the OFFSET, the planner may expect all facts of the database:
 * as long as it has seen no refund, it does not know that each has few.
 */
const factsOfRefund = sql.fragment`
  (SELECT * FROM usage_fact WHERE usage_fact.refund_id = refund.id OFFSET 0)
`;

/** The usage facts of a registration of the query and of its refunds, as a table. */
export const factsOfRegistration = sql.fragment`
  (
    SELECT usage_fact.* FROM usage_fact WHERE ${countsRegistration}
    UNION ALL
    SELECT usage_fact.*
    FROM refund
    CROSS JOIN LATERAL ${factsOfRefund} AS usage_fact
    WHERE refund.registration_id = registration.id
  )
`;

/** Whether a registration of the query has usage. */
export const hasUsage = sql.fragment`EXISTS (SELECT FROM usage_fact WHERE ${countsRegistration})`;

/** Selects the ids of the registrations that a meter event of the query counts, or takes units back of. */
export const registrationsOfEvent = sql.fragment`
  SELECT registration.id
  FROM registration
  WHERE registration.account_id = meter_event.account_id
    AND registration.mode = meter_event.mode
    AND registration.kind = meter_event.kind
    AND registration.created_at >= to_timestamp(meter_event.second)
    AND registration.created_at < to_timestamp(meter_event.second + 1)
    -- An array, because the planner would search the facts again for each registration.
    AND registration.usage_batch = ANY(
      ARRAY(SELECT usage_batch FROM usage_fact WHERE meter_event_id = meter_event.id AND refund_id IS NULL)
    )
  UNION
  SELECT refund.registration_id
  FROM usage_fact
  JOIN refund ON refund.id = usage_fact.refund_id
  WHERE usage_fact.meter_event_id = meter_event.id
`;

const refundProgressRow = z.strictObject({ pending: z.boolean(), failed: z.boolean() });

/**
 * Returns how far the usage is that a registration's refunds take back: whether some of it is still to be sent, and whether
 * some of it is in a failed event. If neither, it has been sent or never will be.
 * @returns null if the registration was deleted, which settled test data are
 */
export const findRefundProgress = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<Readonly<z.output<typeof refundProgressRow>> | null> =>
  db.maybeOne(sql.type(refundProgressRow)`
    SELECT
      coalesce(bool_or(usage.is_pending), false) AS pending,
      coalesce(bool_or(usage.has_failed), false) AS failed
    FROM registration
    LEFT JOIN LATERAL (
      SELECT
        usage_fact.meter_event_id IS NULL OR meter_event.state = 'pending' AS is_pending,
        meter_event.state = 'failed' AS has_failed
      FROM (SELECT id FROM refund WHERE registration_id = registration.id OFFSET 0) AS refund
      CROSS JOIN LATERAL ${factsOfRefund} AS usage_fact
      LEFT JOIN LATERAL (
        SELECT state FROM meter_event WHERE id = usage_fact.meter_event_id OFFSET 0
      ) AS meter_event ON true
    ) AS usage ON true
    WHERE registration.id = ${registrationId}
    GROUP BY registration.id
  `);

const unitsRow = z.strictObject({ units: z.bigint().transform(Number) });

/**
 * Sums the units of a meter event whose refunds the processor has in other events, or may get. Refunds in an event of zero
 * units count as well: they offset other usage, which was not sent.
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
    WHERE meter_event.id <> ${meterEventId} AND meter_event.state IN ('pending', 'delivered')
  `);
