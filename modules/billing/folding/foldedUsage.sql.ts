import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { PROCESSORS } from "../usage.rules.ts";
import type { Span } from "../usage.rules.ts";
import { safeInteger, sql } from "../../../db/sql.ts";

/*
 * How queries read folded usage. Its units were delivered, so it counts beside the meter events and facts that are left.
 */

/** The start of the hour that contains a second. */
const hourOf = (second: FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`((${second}) - (${second}) % 3600)`;

/** The condition that a row of `folded_usage` has an hour with seconds of a span. */
export const overlaps = ({ start, end }: Span): FragmentSqlToken =>
  sql.fragment`folded_usage.hour > ${start}::bigint - 3600 AND folded_usage.hour < ${end}::bigint`;

/**
 * Selects the units of folded hours, as far as they are in a span: `account_id`, `mode`, `kind`, `processor`,
 * `customer_id` (null without one), `hour`, `registered` and `refunded`. Only the hours at the ends of the span are taken
 * apart.
 * @param condition selects rows of `folded_usage`
 */
export const foldedHours = (condition: FragmentSqlToken, span: Span): FragmentSqlToken =>
  sql.fragment`
    SELECT
      folded_usage.account_id,
      folded_usage.mode,
      folded_usage.kind,
      folded_usage.processor,
      nullif(folded_usage.customer_id, '') AS customer_id,
      folded_usage.hour,
      part.registered,
      part.refunded
    FROM folded_usage
    CROSS JOIN LATERAL (
      SELECT hour >= ${span.start}::bigint AND hour + 3600 <= ${span.end}::bigint AS is_whole
    ) AS overlap
    CROSS JOIN LATERAL (
      SELECT folded_usage.registered, folded_usage.refunded
      WHERE is_whole
      UNION ALL
      SELECT sum(unit.registered)::bigint, sum(unit.refunded)::bigint
      FROM unnest(seconds, registered_units, refunded_units) AS unit (place, registered, refunded)
      WHERE NOT is_whole AND hour + place >= ${span.start}::bigint AND hour + place < ${span.end}::bigint
      HAVING count(*) > 0
    ) AS part
    WHERE ${overlaps(span)} AND ${condition}
  `;

/**
 * Selects the units of folded seconds in a span: `second`, `registered` and `refunded`.
 * @param condition selects rows of `folded_usage`
 */
export const foldedSeconds = (condition: FragmentSqlToken, span: Span): FragmentSqlToken =>
  sql.fragment`
    SELECT hour + unit.place AS second, unit.registered, unit.refunded
    FROM folded_usage
    CROSS JOIN LATERAL unnest(seconds, registered_units, refunded_units) AS unit (place, registered, refunded)
    WHERE ${overlaps(span)}
      AND hour + unit.place >= ${span.start}::bigint
      AND hour + unit.place < ${span.end}::bigint
      AND ${condition}
  `;

/** Columns that name a stream and one of its seconds. */
type SecondColumns = {
  readonly accountId: FragmentSqlToken;
  readonly mode: FragmentSqlToken;
  readonly kind: FragmentSqlToken;
  readonly second: FragmentSqlToken;
};

const hourCondition = ({ accountId, mode, kind, second }: SecondColumns): FragmentSqlToken =>
  sql.fragment`
    folded_usage.account_id = ${accountId}
    AND folded_usage.mode = ${mode}
    AND folded_usage.kind = ${kind}
    AND folded_usage.hour = ${hourOf(second)}
  `;

/** The condition that a row of `folded_usage` has a second. At most one row has it. */
export const foldedWithSecond = (columns: SecondColumns): FragmentSqlToken =>
  sql.fragment`
    ${hourCondition(columns)} AND ((${columns.second}) % 3600)::smallint = ANY(folded_usage.seconds)
  `;

/** The last sequence of a second's sealings, folded ones included; 0 if it has none. The next sealing follows it. */
export const lastSequenceOf = (columns: SecondColumns): FragmentSqlToken => sql.fragment`
  greatest(
    (
      SELECT coalesce(max(sequence), 0)
      FROM meter_event
      WHERE meter_event.account_id = ${columns.accountId}
        AND meter_event.mode = ${columns.mode}
        AND meter_event.kind = ${columns.kind}
        AND meter_event.second = ${columns.second}
    ),
    (SELECT coalesce(max(last_sequence), 0) FROM folded_usage WHERE ${hourCondition(columns)})
  )
`;

/**
 * The row of `folded_usage` that has the usage of a registration of the query, as the tail of a SELECT. Imported and
 * prepaid registrations never had usage, although others of their second may have been folded.
 */
export const foldedOfRegistration = sql.fragment`
  FROM folded_usage
  WHERE registration.usage_batch IS NOT NULL
    AND ${foldedWithSecond({
      accountId: sql.fragment`registration.account_id`,
      mode: sql.fragment`registration.mode`,
      kind: sql.fragment`registration.kind`,
      second: sql.fragment`floor(extract(epoch FROM registration.created_at))::bigint`,
    })}
`;

const foldedRow = z.strictObject({
  processor: z.enum(PROCESSORS),
  customerId: z.string().nullable(),
  hour: safeInteger,
  foldedAt: z.date(),
});

/** Where a registration's folded usage is: who billed it, and the hour that has its units. */
export type FoldedUsage = Readonly<z.output<typeof foldedRow>>;

/** Returns where the usage of a registration was folded to, or null. */
export const findFoldedUsage = (
  db: CommonQueryMethods,
  registrationId: string,
): Promise<FoldedUsage | null> =>
  db.maybeOne(sql.type(foldedRow)`
    SELECT folded.*
    FROM registration
    CROSS JOIN LATERAL (
      SELECT
        folded_usage.processor,
        nullif(folded_usage.customer_id, '') AS "customerId",
        folded_usage.hour,
        folded_usage.folded_at AS "foldedAt"
      ${foldedOfRegistration}
    ) AS folded
    WHERE registration.id = ${registrationId}
  `);
