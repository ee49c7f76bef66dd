import type { FragmentSqlToken, CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql, afterLookup } from "../../db/sql.ts";
import { MAXIMUM_QUANTITY } from "./usage.rules.ts";

/*
 * How queries get from a registration to its usage facts and back. The registrations of one stream and second that one
 * statement recorded share a fact, and the facts of their refunds have the number of that statement, too.
 */

/** A constant rather than a parameter, so that prepared statements do not send it each time. */
export const maximumQuantity = sql.fragment`${sql.literalValue(String(MAXIMUM_QUANTITY))}::bigint`;

/** The condition that two usage facts are of registrations that were recorded together. */
const shareRegistrations = (one: string, other: string): FragmentSqlToken => {
  const columns = ["usage_batch", "account_id", "mode", "kind", "second"].map(
    (column) => sql.fragment`${sql.identifier([one, column])} = ${sql.identifier([other, column])}`,
  );
  return sql.fragment`(${sql.join(columns, sql.fragment` AND `)})`;
};

/**
 * The facts of the usage that a refund's `fact` of the query takes back, as a table. Without the OFFSET, the planner reads all
 * sealed facts for each refund where the statistics know of none.
 */
export const refundedFacts = sql.fragment`
  (
    SELECT *
    FROM usage_fact AS original
    WHERE ${shareRegistrations("original", "fact")} AND original.refund_id IS NULL
    OFFSET 0
  )
`;

/** The condition that a usage fact or meter event is of the stream and second of a registration of the query. */
const isOfSecond = (table: "usage_fact" | "meter_event"): FragmentSqlToken => {
  const name = sql.identifier([table]);
  return sql.fragment`
    (${name}.account_id, ${name}.mode, ${name}.kind, ${name}.second)
    = (registration.account_id, registration.mode, registration.kind, floor(extract(epoch FROM registration.created_at))::bigint)
  `;
};

/** The condition that a usage fact counts a registration of the query, together with those recorded with it. */
const countsRegistration = sql.fragment`
  usage_fact.usage_batch = registration.usage_batch
  AND ${isOfSecond("usage_fact")}
  AND usage_fact.refund_id IS NULL
`;

/**
 * The usage facts of a refund of the query, as a table. Without the OFFSET, the planner may expect all facts of the
 * database, as long as it has seen no refund.
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

export const hasUsage = sql.fragment`EXISTS (SELECT FROM usage_fact WHERE ${countsRegistration})`;

/** Selects the ids of the registrations that a meter event of the query counts, or takes units back of. */
export const registrationsOfEvent = sql.fragment`
  SELECT registration.id
  FROM registration
  WHERE (registration.account_id, registration.mode, registration.kind) = (meter_event.account_id, meter_event.mode, meter_event.kind)
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

/** The condition that a usage fact of the query is of a refund of its registration. */
const takesBack = sql.fragment`
  (SELECT refund.registration_id FROM refund WHERE refund.id = usage_fact.refund_id) = registration.id
`;

const FEW_REFUNDS = sql.fragment`100`;

/** Selects the state of usage facts, that of their meter events or `unsealed`, and what else is reported of them. */
const selectUsage = (facts: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  SELECT
    coalesce(meter_event.state, 'unsealed') AS state, coalesce(meter_event.is_late, false) AS is_late, meter_event.processor
  FROM ${facts} AS usage_fact
  LEFT JOIN LATERAL (SELECT * FROM meter_event WHERE id = usage_fact.meter_event_id OFFSET 0) AS meter_event ON true
`;

/** Whether a registration of the query has few refunds, as a table. */
export const countedRefunds = sql.fragment`
  (
    SELECT count(*) <= ${FEW_REFUNDS} AS are_few
    FROM (SELECT FROM refund WHERE registration_id = registration.id LIMIT ${FEW_REFUNDS} + 1) AS refund
  )
`;

/**
 * Selects the usage that the refunds of a registration of the query take back; `refunds` is `countedRefunds`. Few refunds are
 * looked up: their second may have thousands of others. But a registration can have as many refunds as units. Of many, only
 * usage that is unsealed, pending, failed or closed is looked for, in their second.
 */
const usageOfRefunds = sql.fragment`
  ${selectUsage(sql.fragment`
    (
      SELECT usage_fact.*
      FROM refund
      CROSS JOIN LATERAL ${factsOfRefund} AS usage_fact
      WHERE refund.registration_id = registration.id AND refunds.are_few
    )
  `)}
  UNION ALL
  SELECT 'unsealed', false, NULL
  WHERE NOT refunds.are_few AND EXISTS (
    SELECT
    FROM usage_fact
    WHERE ${isOfSecond("usage_fact")} AND usage_fact.meter_event_id IS NULL AND ${takesBack}
  )
  UNION ALL
  SELECT meter_event.state, false, meter_event.processor
  FROM meter_event
  CROSS JOIN LATERAL (
    SELECT FROM usage_fact WHERE usage_fact.meter_event_id = meter_event.id AND ${takesBack} LIMIT 1
  ) AS fact
  WHERE NOT refunds.are_few
    AND ${isOfSecond("meter_event")}
    AND ${afterLookup(sql.fragment`meter_event.state IN ('pending', 'failed', 'closed')`)}
`;

/** The usage of a registration of the query and of its refunds, as a table; `refunds` is `countedRefunds`. */
export const usageOfRegistration = sql.fragment`
  (
    ${selectUsage(sql.fragment`(SELECT * FROM usage_fact WHERE ${countsRegistration})`)}
    UNION ALL
    ${usageOfRefunds}
  )
`;

const refundStateRow = z.strictObject({ state: z.enum(["pending", "failed", "settled"]) });

/**
 * Returns how far the refunds of a registration are with the processor, all of them together.
 * `failed`: an operator must retry or close usage that they take back.
 */
export const readRefundState = (db: CommonQueryMethods, registrationId: string) =>
  db.oneFirst(sql.type(refundStateRow)`
    SELECT CASE
      WHEN bool_or(state IN ('unsealed', 'pending')) THEN 'pending'
      WHEN bool_or(state = 'failed') THEN 'failed'
      ELSE 'settled'
    END AS state
    FROM registration
    CROSS JOIN LATERAL ${countedRefunds} AS refunds
    CROSS JOIN LATERAL (${usageOfRefunds}) AS usage
    WHERE registration.id = ${registrationId}
  `);

const unitsRow = z.strictObject({ units: z.bigint().transform(Number) });

/**
 * Sums the units of a meter event whose refunds the processor has in other events, or may get. Refunds in an event of zero
 * units offset other usage, which was not sent, so they count as well.
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
