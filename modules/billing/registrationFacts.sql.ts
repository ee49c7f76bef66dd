import type { FragmentSqlToken } from "slonik";
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

/** The condition that a usage fact or meter event is of the stream and second of a registration of the query. */
export const isOfSecond = (table: "usage_fact" | "meter_event"): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`
    ${column("account_id")} = registration.account_id
    AND ${column("mode")} = registration.mode
    AND ${column("kind")} = registration.kind
    AND ${column("second")} = floor(extract(epoch FROM registration.created_at))::bigint
  `;
};

/** The condition that a usage fact counts a registration of the query, together with those recorded with it. */
const countsRegistration = sql.fragment`
  usage_fact.usage_batch = registration.usage_batch
  AND ${isOfSecond("usage_fact")}
  AND usage_fact.refund_id IS NULL
`;

/**
 * The usage facts of a refund of the query, as a table. Without the OFFSET, the planner may expect all facts of the database:
 * as long as it has seen no refund, it does not know that each has few.
 */
export const factsOfRefund = sql.fragment`
  (SELECT * FROM usage_fact WHERE usage_fact.refund_id = refund.id OFFSET 0)
`;

/** The usage facts of a registration of the query and of the refunds for which a condition holds, as a table. */
const factsWithRefunds = (condition: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  (
    SELECT usage_fact.* FROM usage_fact WHERE ${countsRegistration}
    UNION ALL
    SELECT usage_fact.*
    FROM refund
    CROSS JOIN LATERAL ${factsOfRefund} AS usage_fact
    WHERE refund.registration_id = registration.id AND ${condition}
  )
`;

/** The usage facts of a registration of the query and of its refunds, as a table. */
export const factsOfRegistration = factsWithRefunds(sql.fragment`true`);

/** The same, but only those of the registration if it has too many refunds to look up each: `refunds` is `countedRefunds`. */
export const factsOfFewRefunds = factsWithRefunds(sql.fragment`refunds.are_few`);

/** Whether a registration of the query has usage. */
export const hasUsage = sql.fragment`EXISTS (SELECT FROM usage_fact WHERE ${countsRegistration})`;

/** Selects the ids of the registrations that a meter event of the query counts. */
const countedRegistrations = sql.fragment`
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
`;

/** Selects the ids of the registrations that a meter event of the query counts, or takes units back of. */
export const registrationsOfEvent = sql.fragment`
  ${countedRegistrations}
  UNION
  SELECT refund.registration_id
  FROM usage_fact
  JOIN refund ON refund.id = usage_fact.refund_id
  WHERE usage_fact.meter_event_id = meter_event.id
`;
