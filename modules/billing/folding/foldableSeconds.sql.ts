import type { FragmentSqlToken } from "slonik";
import type { Owner } from "../../records/owner.rules.ts";
import type { Span } from "../usage.rules.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { MAXIMUM_DIFFERENCES } from "../reconciliation/reconciliations.sql.ts";
import { ofStream } from "../streams.sql.ts";
import { overlaps } from "./foldedUsage.sql.ts";

const inSpan = ({ start, end }: Span): FragmentSqlToken =>
  sql.fragment`second >= ${start} AND second < ${end}`;

/** Defines the query `plain_second`: the seconds of a span whose meter events may be folded. */
const plainSeconds = (
  stream: Owner,
  span: Span,
  settledBefore: Date,
): FragmentSqlToken => sql.fragment`
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
        AND settled_at < ${timestamp(settledBefore)}
        AND NOT (
          processor = 'stripe' AND EXISTS (
            SELECT
            FROM usage_rejection
            WHERE errors > named AND window_start <= settled_at AND window_end >= first_attempt_at
          )
        )
      ) IS TRUE AS is_plain
    FROM meter_event
    WHERE ${ofStream("meter_event", stream)} AND ${inSpan(span)}
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
  )
`;

/** Defines the queries of what keeps seconds of a span from being folded, apart from their own meter events and facts. */
const blockedSeconds = (stream: Owner, span: Span): FragmentSqlToken => sql.fragment`
  blocked_second AS MATERIALIZED (
    SELECT second
    FROM usage_fact
    WHERE ${ofStream("usage_fact", stream)} AND meter_event_id IS NULL AND ${inSpan(span)}
    UNION
    SELECT second
    FROM usage_correction
    WHERE ${ofStream("usage_correction", stream)} AND ${inSpan(span)}
  ),
  blocked_minute AS MATERIALIZED (
    SELECT reconciliation_difference.minute
    FROM reconciliation_stream
    JOIN reconciliation_difference ON reconciliation_stream_id = reconciliation_stream.id
    WHERE ${stream.accountId} = ANY(account_ids)
      AND mode = ${stream.mode}
      AND kind = ${stream.kind}
      AND minute > ${span.start}::bigint - 60
      AND minute < ${span.end}
  ),
  unlisted AS MATERIALIZED (
    SELECT max(minute) AS start, end_second AS "end"
    FROM reconciliation
    JOIN reconciliation_stream ON reconciliation_id = reconciliation.id
    JOIN reconciliation_difference ON reconciliation_stream_id = reconciliation_stream.id
    WHERE ${stream.accountId} = ANY(account_ids)
      AND mode = ${stream.mode}
      AND kind = ${stream.kind}
      AND end_second > ${span.start}
    GROUP BY reconciliation_stream.id, end_second
    HAVING count(*) >= ${MAXIMUM_DIFFERENCES}
  ),
  earlier AS MATERIALIZED (
    SELECT hour + place AS second, processor, customer_id
    FROM folded_usage
    CROSS JOIN LATERAL unnest(seconds) AS place
    WHERE ${ofStream("folded_usage", stream)} AND ${overlaps(span)}
  )
`;

/**
 * Defines the query `foldable`: the seconds of a span that may be folded, with the ids of their meter events and the sums
 * of their facts. Each second is folded as a whole or not at all. It stays if
 * - an event is in another state than delivered, was delivered late or since `settledBefore`, was settled by hand, or has
 *   a note or units that were reported before,
 * - the facts are of a correction or of a refund whose workflow was not started yet, do not add up to the events, or one
 *   is not sealed,
 * - its events, or what was folded of it before, have different processors or customers,
 * - the processor rejected events that it did not name, at the time when an event was sent,
 * - a stored reconciliation lists its minute, or may lack it because its list was full before it,
 * - an operator has acknowledged drift in its minute.
 *
 * The offset keeps the planner from reading all facts: it goes through the index, event by event.
 */
export const foldable = (
  stream: Owner,
  span: Span,
  settledBefore: Date,
): FragmentSqlToken => sql.fragment`
  ${plainSeconds(stream, span, settledBefore)},
  ${blockedSeconds(stream, span)},
  foldable AS MATERIALIZED (
    SELECT plain_second.*, billed.facts, billed.registered, billed.refunded
    FROM plain_second
    CROSS JOIN LATERAL (
      SELECT
        count(*) AS facts,
        coalesce(sum(greatest(fact.quantity, 0)), 0) AS registered,
        coalesce(-sum(least(fact.quantity, 0)), 0) AS refunded,
        bool_and(
          fact.correction_id IS NULL
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
        SELECT FROM unlisted WHERE plain_second.second >= unlisted.start AND plain_second.second < unlisted."end"
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
          AND acknowledged_drift.kind = ${stream.kind}
          AND acknowledged_drift.customer = coalesce(nullif(plain_second.customer_id, ''), ${stream.accountId})
          AND acknowledged_drift.minute = plain_second.second - plain_second.second % 60
      )
  )
`;
