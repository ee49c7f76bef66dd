import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { FoldedSums } from "../../../domain/billing/foldUsage.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { kindColumn, safeInteger } from "../../columns.ts";
import { sql } from "../../sql.ts";
import { foldedOfStream } from "./foldedUsage.ts";

/** A half-open span of unix seconds. */
type Span = { readonly start: number; readonly end: number };

const streamRow = z.strictObject({
  accountId: z.uuid(),
  accountName: z.string(),
  billingDay: z.int(),
  meter: kindColumn,
  firstSecond: safeInteger,
});

/** A live stream with meter events, the second of the oldest, and the billing day of its account. */
export type StreamWithEvents = Readonly<z.output<typeof streamRow>>;

/** Lists the live streams with meter events before a second. */
export const listStreamsWithEvents = (
  db: CommonQueryMethods,
  { accountId, before }: { readonly accountId: string | null; readonly before: number },
): Promise<readonly StreamWithEvents[]> =>
  db.any(sql.type(streamRow)`
    SELECT
      account.id AS "accountId",
      account.name AS "accountName",
      account.billing_day AS "billingDay",
      kind.meter,
      first.second AS "firstSecond"
    FROM account
    CROSS JOIN (VALUES ('tree', 1), ('bottle', 2)) AS kind (meter, place)
    CROSS JOIN LATERAL (
      SELECT second
      FROM meter_event
      WHERE meter_event.account_id = account.id
        AND meter_event.mode = 'live'
        AND meter_event.meter = kind.meter
        AND second < ${before}
      ORDER BY second
      LIMIT 1
    ) AS first
    WHERE ${accountId === null ? sql.fragment`true` : sql.fragment`account.id = ${accountId}`}
    ORDER BY account.created_at, account.id, kind.place
  `);

const eventsOf = ({ accountId, mode, meter }: UsageStream): FragmentSqlToken => sql.fragment`
  meter_event.account_id = ${accountId} AND meter_event.mode = ${mode} AND meter_event.meter = ${meter}
`;

/**
 * Returns the end of a part of a span that begins with a second and has so many different seconds with meter events, and
 * how many it has; null if the rest of the span has none.
 */
export const findPart = (
  db: CommonQueryMethods,
  stream: UsageStream,
  { start, end }: Span,
  maximumSeconds: number,
): Promise<{ readonly end: number; readonly seconds: number } | null> =>
  db.maybeOne(sql.type(z.strictObject({ end: safeInteger, seconds: safeInteger }))`
    SELECT max(second) + 1 AS "end", count(*) AS seconds
    FROM (
      SELECT DISTINCT second
      FROM meter_event
      WHERE ${eventsOf(stream)} AND second >= ${start} AND second < ${end}
      ORDER BY second
      LIMIT ${maximumSeconds}
    ) AS part
    HAVING count(*) > 0
  `);

const hoursOf = ({ start, end }: Span): FragmentSqlToken =>
  sql.fragment`hour > ${start}::bigint - 3600 AND hour < ${end}::bigint`;

/**
 * Defines the query `foldable`: the seconds of a span that may be folded, with the ids of their meter events and the sums
 * of their facts. Each second is folded as a whole or not at all. It stays if
 * - an event is in another state than delivered, was delivered late or since `settledBefore`, was settled by hand, or has
 *   a note or units that were reported before,
 * - the facts are of a correction or of a refund whose workflow was not started yet, do not add up to the events, or one
 *   is not sealed,
 * - its events, or what was folded of it before, have different processors or customers,
 * - the processor rejected events that it did not name, at the time when an event was sent,
 * - a stored reconciliation lists its minute, or an operator has acknowledged drift in it.
 *
 * The offset keeps the planner from reading all facts: it goes through the index, event by event.
 */
const foldable = (stream: UsageStream, span: Span, settledBefore: Date): FragmentSqlToken => {
  const inSpan = (second: FragmentSqlToken): FragmentSqlToken =>
    sql.fragment`${second} >= ${span.start} AND ${second} < ${span.end}`;
  return sql.fragment`
    event AS MATERIALIZED (
      SELECT
        id,
        second,
        sequence,
        quantity,
        processor,
        coalesce(customer_id, '') AS customer_id,
        (state = 'delivered'
          AND last_error IS NULL
          AND settlement_reference IS NULL
          AND already_reported = 0
          AND settled_at < ${settledBefore.toISOString()}
          AND NOT (
            processor = 'stripe' AND EXISTS (
              SELECT
              FROM usage_rejection
              WHERE errors > named AND window_start <= settled_at AND window_end >= first_attempt_at
            )
          )
        ) IS TRUE AS is_plain
      FROM meter_event
      WHERE ${eventsOf(stream)} AND ${inSpan(sql.fragment`second`)}
    ),
    plain_second AS MATERIALIZED (
      SELECT
        second,
        array_agg(id) AS ids,
        sum(quantity) AS quantity,
        max(sequence) AS sequence,
        min(processor) AS processor,
        min(customer_id) AS customer_id
      FROM event
      GROUP BY second
      HAVING bool_and(is_plain) AND min(processor) = max(processor) AND min(customer_id) = max(customer_id)
    ),
    blocked_second AS MATERIALIZED (
      SELECT second
      FROM usage_fact
      WHERE account_id = ${stream.accountId}
        AND mode = ${stream.mode}
        AND meter = ${stream.meter}
        AND meter_event_id IS NULL
        AND ${inSpan(sql.fragment`second`)}
      UNION
      SELECT second
      FROM usage_correction
      WHERE account_id = ${stream.accountId}
        AND mode = ${stream.mode}
        AND meter = ${stream.meter}
        AND ${inSpan(sql.fragment`second`)}
    ),
    blocked_minute AS MATERIALIZED (
      SELECT reconciliation_difference.minute
      FROM reconciliation_stream
      JOIN reconciliation_difference ON reconciliation_stream_id = reconciliation_stream.id
      WHERE ${stream.accountId} = ANY(account_ids)
        AND mode = ${stream.mode}
        AND meter = ${stream.meter}
        AND minute > ${span.start}::bigint - 60
        AND minute < ${span.end}
    ),
    earlier AS MATERIALIZED (
      SELECT hour + place AS second, processor, customer_id
      FROM folded_usage
      CROSS JOIN LATERAL unnest(seconds) AS place
      WHERE ${foldedOfStream(stream)} AND ${hoursOf(span)}
    ),
    foldable AS MATERIALIZED (
      SELECT plain_second.*, billed.facts, billed.registered, billed.refunded
      FROM plain_second
      CROSS JOIN LATERAL (
        SELECT
          count(*) AS facts,
          coalesce(sum(greatest(fact.quantity, 0)), 0) AS registered,
          coalesce(-sum(least(fact.quantity, 0)), 0) AS refunded,
          bool_and(
            fact.registration_id IS NOT NULL
            AND fact.already_reported IS NULL
            AND (
              fact.refund_id IS NULL
              OR NOT EXISTS (SELECT FROM refund WHERE refund.id = fact.refund_id AND dispatched_at IS NULL)
            )
          ) AS is_plain
        FROM unnest(plain_second.ids) AS event (id)
        CROSS JOIN LATERAL (
          SELECT * FROM usage_fact WHERE meter_event_id = event.id OFFSET 0
        ) AS fact
      ) AS billed
      WHERE billed.is_plain
        AND billed.registered - billed.refunded = plain_second.quantity
        AND NOT EXISTS (SELECT FROM blocked_second WHERE blocked_second.second = plain_second.second)
        AND NOT EXISTS (
          SELECT FROM blocked_minute WHERE blocked_minute.minute = plain_second.second - plain_second.second % 60
        )
        AND NOT EXISTS (
          SELECT
          FROM earlier
          WHERE earlier.second = plain_second.second
            AND (earlier.processor, earlier.customer_id) <> (plain_second.processor, plain_second.customer_id)
        )
        AND NOT EXISTS (
          SELECT
          FROM acknowledged_drift
          WHERE acknowledged_drift.processor = plain_second.processor
            AND acknowledged_drift.mode = ${stream.mode}
            AND acknowledged_drift.meter = ${stream.meter}
            AND acknowledged_drift.customer = coalesce(nullif(plain_second.customer_id, ''), ${stream.accountId})
            AND acknowledged_drift.minute = plain_second.second - plain_second.second % 60
        )
    )
  `;
};

const unit = z.bigint();

const foldedRow = z.strictObject({
  events: safeInteger,
  facts: safeInteger,
  units: unit,
  /** Events of the span that stay. */
  kept: safeInteger,
});

/** What was folded, or would be, of a span. */
export type FoldedPart = Readonly<z.output<typeof foldedRow>>;

/** Returns what `foldSeconds` would fold. */
export const sumFoldable = (
  db: CommonQueryMethods,
  stream: UsageStream,
  span: Span,
  settledBefore: Date,
): Promise<FoldedPart> =>
  db.one(sql.type(foldedRow)`
    WITH ${foldable(stream, span, settledBefore)}
    SELECT
      coalesce(sum(cardinality(ids)), 0)::bigint AS events,
      coalesce(sum(facts), 0)::bigint AS facts,
      coalesce(sum(quantity), 0)::bigint AS units,
      (SELECT count(*) FROM event) - coalesce(sum(cardinality(ids)), 0)::bigint AS kept
    FROM foldable
  `);

const removedRow = foldedRow.extend({ registered: unit, refunded: unit });

/**
 * Folds the seconds of a span that may be folded: deletes their facts and meter events, and adds the units of what was
 * deleted to the rows of their hours. Must run under the stream's lock.
 * @returns what was folded; `units` are those of the events, the others those of the facts
 */
export const foldSeconds = (
  transaction: DatabaseTransactionConnection,
  stream: UsageStream,
  span: Span,
  { settledBefore, now }: { readonly settledBefore: Date; readonly now: Date },
): Promise<Readonly<z.output<typeof removedRow>>> =>
  transaction.one(sql.type(removedRow)`
    WITH ${foldable(stream, span, settledBefore)},
    folded_event AS MATERIALIZED (
      SELECT event.id FROM foldable CROSS JOIN LATERAL unnest(ids) AS event (id)
    ),
    -- Arrays, so that the planner uses the indexes whatever it expects.
    removed_fact AS (
      DELETE FROM usage_fact
      WHERE meter_event_id = ANY(ARRAY(SELECT id FROM folded_event))
      RETURNING second, quantity
    ),
    removed_event AS (
      DELETE FROM meter_event
      WHERE id = ANY(ARRAY(SELECT id FROM folded_event))
      RETURNING quantity
    ),
    added AS (
      SELECT
        second,
        foldable.processor,
        foldable.customer_id,
        foldable.sequence,
        sum(greatest(removed_fact.quantity, 0)) AS registered,
        -sum(least(removed_fact.quantity, 0)) AS refunded
      FROM removed_fact
      JOIN foldable USING (second)
      GROUP BY second, foldable.processor, foldable.customer_id, foldable.sequence
    ),
    unit AS (
      SELECT
        second - second % 3600 AS hour, second % 3600 AS place, processor, customer_id, sequence, registered, refunded
      FROM added
      UNION ALL
      SELECT
        hour, earlier.place, processor, customer_id, last_sequence, earlier.registered, earlier.refunded
      FROM folded_usage
      CROSS JOIN LATERAL unnest(seconds, registered_units, refunded_units) AS earlier (place, registered, refunded)
      WHERE ${foldedOfStream(stream)}
        -- Without it the planner may read all hours of the stream, before it knows how many there are.
        AND ${hoursOf(span)}
        AND (hour, processor, customer_id) IN (SELECT second - second % 3600, processor, customer_id FROM added)
    ),
    summed AS (
      SELECT
        hour, place, processor, customer_id,
        max(sequence) AS sequence, sum(registered)::bigint AS registered, sum(refunded)::bigint AS refunded
      FROM unit
      GROUP BY hour, place, processor, customer_id
    ),
    written AS (
      INSERT INTO folded_usage
        (
          account_id, mode, meter, hour, processor, customer_id, last_sequence, registered, refunded, seconds,
          registered_units, refunded_units, folded_at
        )
      SELECT
        ${stream.accountId}, ${stream.mode}, ${stream.meter}, hour, processor, customer_id,
        max(sequence), sum(registered)::bigint, sum(refunded)::bigint,
        array_agg(place::smallint ORDER BY place),
        array_agg(registered ORDER BY place),
        array_agg(refunded ORDER BY place),
        ${now.toISOString()}::timestamptz
      FROM summed
      GROUP BY hour, processor, customer_id
      ON CONFLICT (account_id, mode, meter, hour, processor, customer_id) DO UPDATE
      SET
        last_sequence = excluded.last_sequence,
        registered = excluded.registered,
        refunded = excluded.refunded,
        seconds = excluded.seconds,
        registered_units = excluded.registered_units,
        refunded_units = excluded.refunded_units,
        folded_at = excluded.folded_at
    )
    SELECT
      fact.facts,
      fact.registered,
      fact.refunded,
      event.events,
      event.units,
      (SELECT count(*) FROM event) - event.events AS kept
    FROM (
      SELECT
        count(*) AS facts,
        coalesce(sum(greatest(quantity, 0)), 0)::bigint AS registered,
        coalesce(-sum(least(quantity, 0)), 0)::bigint AS refunded
      FROM removed_fact
    ) AS fact
    CROSS JOIN (
      SELECT count(*) AS events, coalesce(sum(quantity), 0)::bigint AS units FROM removed_event
    ) AS event
  `);

const sumsRow = z.strictObject({
  registered: unit,
  refunded: unit,
  registeredBySecond: unit,
  refundedBySecond: unit,
});

/** Returns the units of the rows of a span's hours: their sums, and those of their seconds. */
export const sumFoldedHours = (
  transaction: DatabaseTransactionConnection,
  stream: UsageStream,
  span: Span,
): Promise<FoldedSums> =>
  transaction.one(sql.type(sumsRow)`
    SELECT
      coalesce(sum(folded_usage.registered), 0)::bigint AS registered,
      coalesce(sum(folded_usage.refunded), 0)::bigint AS refunded,
      coalesce(sum(by_second.registered), 0)::bigint AS "registeredBySecond",
      coalesce(sum(by_second.refunded), 0)::bigint AS "refundedBySecond"
    FROM folded_usage
    CROSS JOIN LATERAL (
      SELECT sum(unit.registered) AS registered, sum(unit.refunded) AS refunded
      FROM unnest(registered_units, refunded_units) AS unit (registered, refunded)
    ) AS by_second
    WHERE ${foldedOfStream(stream)} AND ${hoursOf(span)}
  `);
