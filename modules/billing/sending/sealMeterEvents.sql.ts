import type { DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../../records/owner.rules.ts";
import { PROCESSORS } from "../usage.rules.ts";
import { jsonRows } from "../../../db/jsonRows.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import { meterEventRow } from "../meterEvents.rules.ts";
import { identifierOfSealing, meterEventColumns, nextSequence } from "../meterEvents.sql.ts";
import type { StoredMeterEvent, Failure, MeterEventState } from "../meterEvents.rules.ts";
import { refundedFacts } from "../registrationFacts.sql.ts";
import type { BillingTarget } from "../usage.rules.ts";
import { STREAM } from "../streams.sql.ts";
import { leaseEnd } from "./waitingStreams.sql.ts";
import type { UnsentStream } from "./waitingStreams.sql.ts";

/** Fewer facts than a second can have exceed the most units of an event only if some have more. */
const LARGE_QUANTITY = sql.fragment`100000000`;

const unsealedRow = z.strictObject({
  place: safeInteger,
  second: safeInteger,
  ids: z.array(z.string()),
  quantity: safeInteger,
  waitsFor: z.string().nullable(),
  isUsageClosed: z.boolean(),
  isDoubted: z.boolean(),
  processor: z.enum(PROCESSORS),
  customerId: z.string().nullable(),
});

/** The summed facts of one future meter event. */
export type UnsealedPart = Omit<Readonly<z.output<typeof unsealedRow>>, "place">;

/** Joins, for a fact of a refund, the event of the usage that it takes back: of several, the first that the processor does not have. */
const joinUsage = sql.fragment`
  LEFT JOIN LATERAL (
    SELECT meter_event.id, meter_event.state, meter_event.document_reference, meter_event.processor, meter_event.customer_id
    FROM ${refundedFacts} AS original
    JOIN meter_event ON meter_event.id = original.meter_event_id
    WHERE fact.refund_id IS NOT NULL
    ORDER BY meter_event.state = 'delivered', original.id
    LIMIT 1
  ) AS usage ON true
`;

export type BilledStream = UnsentStream & { readonly current: BillingTarget };

/** The most facts that are read of the streams which probably send none of them, in all. */
const MAXIMUM_UNSENT_FACTS = 2000;

const BILLED_STREAM = {
  ...STREAM,
  firstSecond: "int8",
  facts: "int8",
  processor: "text",
  customerId: "text",
} as const;

const streamTable = (streams: readonly BilledStream[]): FragmentSqlToken => {
  const isUnsent = ({ current, hasUnsent = false }: BilledStream) =>
    hasUnsent || current.processor === "ledger";
  const unsentFacts = Math.ceil(MAXIMUM_UNSENT_FACTS / streams.filter(isUnsent).length);
  const rows = streams.map((stream) => ({
    ...stream,
    ...stream.current,
    facts: isUnsent(stream) ? unsentFacts : 1,
  }));
  return sql.fragment`(${jsonRows(BILLED_STREAM, rows)}) AS stream`;
};

/**
 * Joins the facts of the oldest seconds of each stream of the query. Because of the limits and offsets, the planner goes
 * through the indexes, stream by stream, and reads no whole table.
 */
const oldestFacts = (lastSecond: number): FragmentSqlToken => sql.fragment`
      CROSS JOIN LATERAL (
        SELECT DISTINCT second
        FROM (
          SELECT second
          FROM usage_fact
          WHERE (account_id, mode, kind) = (stream.account_id, stream.mode, stream.kind)
            AND meter_event_id IS NULL
            AND second >= stream.first_second
            AND second <= ${lastSecond}
          ORDER BY second
          LIMIT stream.facts
        ) AS first
      ) AS oldest
      CROSS JOIN LATERAL (
        SELECT *
        FROM usage_fact
        WHERE (account_id, mode, kind) = (stream.account_id, stream.mode, stream.kind)
          AND meter_event_id IS NULL
          AND second = oldest.second
        OFFSET 0
      ) AS fact
`;

/**
 * Sums the unsealed facts of each stream's oldest seconds that have any, in groups that each become one meter event. New
 * usage is billed to the current target, and a refund to the target that was billed for the registration. Refunds of usage
 * that the processor does not have are apart, and so is each fact of very many units, so that no event has more than it may.
 * @param streams each from its first second on. An index entry of a sealed fact may remain for long, so each earlier second
 *   would have to be read again
 * @param options.doubtedFactId the last fact that may have been sent in a lost history. Up to it, usage and refunds are summed
 *   apart: the processor may have one without the other
 * @returns the groups of each stream in the given order, the oldest second first
 */
export const listOldestUnsealedFacts = async (
  transaction: DatabaseTransactionConnection,
  streams: readonly BilledStream[],
  options: { readonly lastSecond: number; readonly doubtedFactId: number | null },
): Promise<readonly (readonly UnsealedPart[])[]> => {
  const rows = await transaction.any(sql.type(unsealedRow)`
    WITH unsealed AS (
      SELECT
        stream.place,
        fact.id,
        fact.second,
        fact.quantity,
        -- A refund of so many units follows its usage, which has as many, and an earlier id.
        CASE WHEN abs(fact.quantity) > ${LARGE_QUANTITY} THEN fact.id END AS large_id,
        doubt.is_doubted,
        CASE WHEN doubt.is_doubted THEN sign(fact.quantity) END AS sign,
        CASE WHEN usage.state <> 'delivered' THEN usage.id::text END AS waits_for,
        coalesce(usage.state = 'closed' AND usage.document_reference IS NULL, false) AS is_usage_closed,
        coalesce(usage.processor, stream.processor) AS processor,
        CASE WHEN usage.id IS NULL THEN stream.customer_id ELSE usage.customer_id END AS customer_id
      FROM ${streamTable(streams)}
      ${oldestFacts(options.lastSecond)}
      CROSS JOIN LATERAL (
        SELECT stream.processor = 'stripe' AND fact.id <= ${options.doubtedFactId ?? 0} AS is_doubted
      ) AS doubt
      ${joinUsage}
    )
    SELECT
      place,
      second,
      array_agg(id::text) AS ids,
      sum(quantity)::bigint AS quantity,
      waits_for AS "waitsFor",
      is_usage_closed AS "isUsageClosed",
      is_doubted AS "isDoubted",
      processor,
      customer_id AS "customerId"
    FROM unsealed
    GROUP BY place, second, processor, customer_id, waits_for, is_usage_closed, is_doubted, sign, large_id
    ORDER BY
      place, second, is_doubted DESC, large_id, waits_for, is_usage_closed, processor, customer_id, sign DESC
  `);
  const parts: UnsealedPart[][] = streams.map(() => []);
  for (const { place, ...part } of rows) {
    parts[place - 1]?.push(part);
  }
  return parts;
};

export type SealedEvent = Owner &
  UnsealedPart & {
    readonly state: MeterEventState;
    readonly failure: Failure | null;
    /** Since when the processor may have it, if it may have been sent in a lost history: it is asked first. */
    readonly askingSince: Date | null;
  };

const SEALED = {
  ...STREAM,
  ids: "_int8",
  second: "int8",
  quantity: "int8",
  processor: "text",
  customerId: "text",
  state: "text",
  failure: "text",
  waitsFor: "int8",
  askingSince: "timestamptz",
} as const;

/**
 * Inserts the next sealings of seconds, and leases an event to send to its first attempt. Must run under the streams'
 * locks, which keep the sequences free of gaps. Returns the events in their order.
 */
export const insertMeterEvents = async (
  transaction: DatabaseTransactionConnection,
  events: readonly SealedEvent[],
  sealedAt: Date,
): Promise<readonly StoredMeterEvent[]> =>
  events.length === 0
    ? []
    : transaction.any(sql.type(meterEventRow)`
    WITH sealing AS (
      SELECT event.*, ${nextSequence("event", "place")} AS sequence
      FROM (${jsonRows(SEALED, events)}) AS event
    ),
    inserted AS (
      INSERT INTO meter_event
        (
          account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state, failure,
          waits_for, asking_since, may_be_delivered, sealed_at, settled_at, attempts, first_attempt_at, leased_until
        )
      SELECT
        account_id, mode, kind, second, sequence, quantity, ${identifierOfSealing}, processor, customer_id, state, failure,
        waits_for,
        CASE WHEN state = 'pending' THEN asking_since END,
        asking_since IS NOT NULL AND state IN ('pending', 'failed'),
        sealed_at,
        CASE WHEN state <> 'pending' THEN sealed_at END,
        CASE WHEN is_sent THEN 1 ELSE 0 END,
        CASE WHEN is_sent THEN sealed_at END,
        CASE WHEN is_sent THEN leased_until END
      FROM sealing
      CROSS JOIN (VALUES (${timestamp(sealedAt)}, ${timestamp(leaseEnd(sealedAt))})) AS time (sealed_at, leased_until)
      CROSS JOIN LATERAL (SELECT state = 'pending' AND asking_since IS NULL AS is_sent) AS decided
      ORDER BY place
      RETURNING *
    ),
    assignment AS MATERIALIZED (
      SELECT unnest(sealing.ids) AS fact_id, inserted.id AS meter_event_id
      FROM sealing
      JOIN inserted USING (account_id, mode, kind, second, sequence)
    ),
    assigned AS (
      UPDATE usage_fact
      SET meter_event_id = assignment.meter_event_id
      FROM assignment
      WHERE usage_fact.id = assignment.fact_id
        -- Without it the planner reads all facts to find hundreds of them.
        AND usage_fact.id = ANY(ARRAY(SELECT fact_id FROM assignment))
    )
    SELECT ${meterEventColumns}
    FROM inserted AS meter_event
    JOIN sealing USING (account_id, mode, kind, second, sequence)
    ORDER BY sealing.place
  `);
