import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import type { Span } from "./usage.rules.ts";
import { sql } from "../../db/sql.ts";
import { inSpan } from "./streams.sql.ts";

const sum = z.bigint().transform(Number);

/**
 * Registered minus refunded units are the sum of the others. `documented` ones are billed or returned by a document, also
 * if they were delivered late.
 */
const usageRow = z.strictObject({
  day: z.string().nullable(),
  registered: sum,
  refunded: sum,
  reported: sum,
  late: sum,
  failed: sum,
  closed: sum,
  documented: sum,
  pending: sum,
});

/** The condition that a row is of a stream in a span. */
const isIn = (table: string, { accountId, mode, kind }: Owner, span: Span): FragmentSqlToken => {
  const row = sql.identifier([table]);
  return sql.fragment`
    ${row}.account_id = ${accountId} AND ${row}.mode = ${mode} AND ${row}.kind = ${kind} AND ${inSpan(table, span)}
  `;
};

/** A query of the usage of a stream in a period, with the states of its events: usage facts, and events without, of differences. */
const factsWithStates = (stream: Owner, span: Span): FragmentSqlToken => sql.fragment`
  SELECT
    meter_event.second,
    coalesce(usage_fact.quantity, meter_event.quantity) AS quantity,
    usage_fact.id IS NULL AS is_of_difference,
    meter_event.document_kind,
    meter_event.state,
    meter_event.is_late
  FROM meter_event
  LEFT JOIN usage_fact ON usage_fact.meter_event_id = meter_event.id
  WHERE ${isIn("meter_event", stream, span)}
    AND meter_event.failure IS DISTINCT FROM 'difference'
  UNION ALL
  SELECT second, quantity, false, NULL, 'pending', false
  FROM usage_fact
  WHERE ${isIn("usage_fact", stream, span)}
    AND meter_event_id IS NULL
`;

const sumOf = (condition: FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`coalesce(sum(quantity) FILTER (WHERE ${condition}), 0)::bigint`;

/**
 * Sums the usage of a stream in a span, and by the day of the registration, UTC, `YYYY-MM-DD`. Refunds count on that day, too,
 * as at the processor.
 */
export const sumUsageByDay = async (db: CommonQueryMethods, stream: Owner, span: Span) => {
  const rows = await db.any(sql.type(usageRow)`
    SELECT
      to_char(to_timestamp(second) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
      ${sumOf(sql.fragment`quantity > 0 AND NOT is_of_difference`)} AS registered,
      -${sumOf(sql.fragment`quantity < 0 AND NOT is_of_difference`)} AS refunded,
      ${sumOf(sql.fragment`state = 'delivered' AND NOT is_late AND document_kind IS NULL`)} AS reported,
      ${sumOf(sql.fragment`is_late`)} AS late,
      ${sumOf(sql.fragment`state = 'failed'`)} AS failed,
      ${sumOf(sql.fragment`document_kind = 'none' OR (state = 'closed' AND document_kind IS NULL)`)} AS closed,
      ${sumOf(sql.fragment`document_kind <> 'none'`)} AS documented,
      ${sumOf(sql.fragment`state = 'pending'`)} AS pending
    FROM (${factsWithStates(stream, span)}) AS fact
    GROUP BY GROUPING SETS ((1), ())
    ORDER BY 1
  `);
  const total = rows.find(({ day }) => day === null);
  if (!total) {
    throw new TypeError("The sums have no total.");
  }
  const { day: _day, ...sums } = total;
  return {
    total: sums,
    days: rows.flatMap(({ day, ...of }) => (day === null ? [] : [{ day, ...of }])),
  };
};
