import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS } from "../../records/owner.rules.ts";
import type { Owner } from "../../records/owner.rules.ts";
import type { FoldedSums } from "./foldUsage.rules.ts";
import type { Span } from "../usage.rules.ts";
import { kindColumn } from "../../records/columns.sql.ts";
import { safeInteger, sql, timestamp, values } from "../../../db/sql.ts";
import { ofStream } from "../streams.sql.ts";
import { overlaps } from "./foldedUsage.sql.ts";
import { foldable } from "./foldableSeconds.sql.ts";

const streamRow = z.strictObject({
  accountId: z.uuid(),
  accountName: z.string(),
  billingDay: z.int(),
  kind: kindColumn,
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
      stream.kind,
      first.second AS "firstSecond"
    FROM account
    CROSS JOIN ${values(KINDS)} WITH ORDINALITY AS stream (kind, place)
    CROSS JOIN LATERAL (
      SELECT second
      FROM meter_event
      WHERE meter_event.account_id = account.id
        AND meter_event.mode = 'live'
        AND meter_event.kind = stream.kind
        AND second < ${before}
      ORDER BY second
      LIMIT 1
    ) AS first
    WHERE ${accountId === null ? sql.fragment`true` : sql.fragment`account.id = ${accountId}`}
    ORDER BY account.created_at, account.id, stream.place
  `);

const partRow = z.strictObject({ end: safeInteger, seconds: safeInteger });

/**
 * Returns the end of the next part of a span, which has at most `maximumSeconds` seconds with meter events, and their
 * number; null if the span has none.
 */
export const findPart = (
  db: CommonQueryMethods,
  stream: Owner,
  { start, end }: Span,
  maximumSeconds: number,
): Promise<{ readonly end: number; readonly seconds: number } | null> =>
  db.maybeOne(sql.type(partRow)`
    SELECT max(second) + 1 AS "end", count(*) AS seconds
    FROM (
      SELECT DISTINCT second
      FROM meter_event
      WHERE ${ofStream("meter_event", stream)} AND second >= ${start} AND second < ${end}
      ORDER BY second
      LIMIT ${maximumSeconds}
    ) AS part
    HAVING count(*) > 0
  `);

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
  stream: Owner,
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

/**
 * Defines the query `summed`: the seconds of the hours in which facts were removed, with the units of these facts and those
 * that were folded before.
 */
const changedSeconds = (stream: Owner, span: Span): FragmentSqlToken => sql.fragment`
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
    WHERE ${ofStream("folded_usage", stream)}
      -- Without it the planner may read all hours of the stream, before it knows how many there are.
      AND ${overlaps(span)}
      AND (hour, processor, customer_id) IN (SELECT second - second % 3600, processor, customer_id FROM added)
  ),
  summed AS (
    SELECT
      hour, place, processor, customer_id,
      max(sequence) AS sequence, sum(registered)::bigint AS registered, sum(refunded)::bigint AS refunded
    FROM unit
    GROUP BY hour, place, processor, customer_id
  )
`;

const removedRow = foldedRow.extend({ registered: unit, refunded: unit });

/**
 * Folds the seconds of a span that may be folded: deletes their facts and meter events, and adds the units of what was
 * deleted to the rows of their hours. Must run under the stream's lock.
 * @returns what was folded; `units` are those of the events, the others those of the facts
 */
export const foldSeconds = (
  transaction: DatabaseTransactionConnection,
  stream: Owner,
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
    ${changedSeconds(stream, span)},
    written AS (
      INSERT INTO folded_usage
        (
          account_id, mode, kind, hour, processor, customer_id, last_sequence, registered, refunded, seconds,
          registered_units, refunded_units, folded_at
        )
      SELECT
        ${stream.accountId}, ${stream.mode}, ${stream.kind}, hour, processor, customer_id,
        max(sequence), sum(registered)::bigint, sum(refunded)::bigint,
        array_agg(place::smallint ORDER BY place),
        array_agg(registered ORDER BY place),
        array_agg(refunded ORDER BY place),
        ${timestamp(now)}
      FROM summed
      GROUP BY hour, processor, customer_id
      ON CONFLICT (account_id, mode, kind, hour, processor, customer_id) DO UPDATE
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
  stream: Owner,
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
    WHERE ${ofStream("folded_usage", stream)} AND ${overlaps(span)}
  `);
