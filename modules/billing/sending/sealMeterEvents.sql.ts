import type { DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../../records/owner.rules.ts";
import { PROCESSORS, meterEventIdentifierStem } from "../usage.rules.ts";
import { safeInteger, sql, timestamp } from "../../../db/sql.ts";
import {
  FAILED,
  UNFINISHED,
  lastSequenceOf,
  meterEventColumns,
  meterEventRow,
} from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { shareRegistrations } from "../registrationFacts.sql.ts";
import type { BillingTarget } from "../usageFacts.sql.ts";
import { maximumQuantity } from "../usageFacts.sql.ts";
import type { MeterEventState } from "../meterEvents.rules.ts";

const unsealedRow = z.strictObject({
  place: safeInteger,
  second: safeInteger,
  ids: z.array(z.string()),
  quantity: z.bigint(),
  alreadyReported: z.bigint(),
  held: z.boolean(),
  processor: z.enum(PROCESSORS),
  customerId: z.string().nullable(),
});

/** The summed facts of one future meter event. */
export type UnsealedPart = Omit<Readonly<z.output<typeof unsealedRow>>, "place">;

/**
 * The facts of the registrations that a fact of the query takes units back of, as a table. Without the OFFSET, the planner reads
 * all sealed facts for each refund where the statistics know of none.
 */
const originalFacts = sql.fragment`
  (
    SELECT * FROM usage_fact AS original
    WHERE ${shareRegistrations("original", "fact")} AND original.refund_id IS NULL
    OFFSET 0
  )
`;

const mayBeBilledSince = (heldAt: Date | null): FragmentSqlToken =>
  heldAt === null
    ? sql.fragment`false`
    : sql.fragment`(meter_event.state = 'blocked' AND meter_event.settled_at >= ${timestamp(heldAt)})`;

/** Joins, for a fact of a refund, the usage that it takes back: `failed` or `billed`. */
const originalTargets = (mayBeBilled: FragmentSqlToken): FragmentSqlToken => sql.fragment`
  LEFT JOIN LATERAL (
    SELECT original.id
    FROM ${originalFacts} AS original
    JOIN meter_event ON meter_event.id = original.meter_event_id
    WHERE fact.refund_id IS NOT NULL AND meter_event.state IN (${FAILED}, 'waived') AND NOT ${mayBeBilled}
    LIMIT 1
  ) AS failed ON true
  LEFT JOIN LATERAL (
    SELECT meter_event.processor, meter_event.customer_id
    FROM ${originalFacts} AS original
    JOIN meter_event ON meter_event.id = original.meter_event_id
    WHERE fact.refund_id IS NOT NULL AND (meter_event.state IN ('delivered', 'void') OR ${mayBeBilled})
    ORDER BY original.id
    LIMIT 1
  ) AS billed ON true
`;

/** Defines the query `fitting`: the facts of the query `unsealed`, and whether each of them fits into the meter event. */
const fittingFacts = sql.fragment`
  summed AS (
    SELECT *, sum(quantity) OVER (PARTITION BY place, second, held, processor, customer_id ORDER BY id) AS running
    FROM unsealed
  ),
  fitting AS (
    -- Stop at the first fact that does not fit. Without the skipped facts, later running sums would be wrong.
    SELECT
      *,
      bool_and(abs(running) <= ${maximumQuantity}) OVER (
        PARTITION BY place, second, held, processor, customer_id ORDER BY id
      ) AS fits
    FROM summed
  )
`;

type UnsealedStream = Owner & {
  readonly current: BillingTarget;
  readonly firstSecond: number;
};

const streamTable = (streams: readonly UnsealedStream[]) =>
  sql.unnest(
    streams.map(({ accountId, mode, kind, current, firstSecond }, place) => [
      place,
      accountId,
      mode,
      kind,
      firstSecond,
      current.processor,
      current.customerId,
    ]),
    ["int8", "uuid", "text", "text", "int8", "text", "text"],
  );

/**
 * Sums the unsealed facts of each stream's oldest seconds that have any, in groups that each become one meter event. New
 * usage is billed to the current target, a refund to the target that was billed for the registration, a correction to its
 * own. Refunds of usage that the processor does not have are `held`. Units that the processor already has are not in a
 * group's quantity. A group takes only as many facts as fit into one event.
 * @param streams the streams with the current targets of their usage, and the first second that is looked at. An index entry of
 *   a sealed fact may remain for long, so each earlier second would have to be read again.
 * @param options the last second that is looked at, the number of a stream's oldest facts whose seconds are summed, and for a
 *   comparison the begin of the hold: usage that was blocked since may have been billed
 * @returns the groups of each stream in the given order, the oldest second first
 */
export const listOldestUnsealedFacts = async (
  transaction: DatabaseTransactionConnection,
  streams: readonly UnsealedStream[],
  {
    lastSecond,
    facts,
    heldAt = null,
  }: { readonly lastSecond: number; readonly facts: number; readonly heldAt?: Date | null },
): Promise<readonly (readonly UnsealedPart[])[]> => {
  const rows = await transaction.any(sql.type(unsealedRow)`
    WITH unsealed AS (
      SELECT
        stream.place,
        fact.id,
        fact.second,
        fact.quantity - coalesce(fact.already_reported, 0) AS quantity,
        coalesce(fact.already_reported, 0) AS already_reported,
        failed.id IS NOT NULL AS held,
        coalesce(correction.processor, billed.processor, stream.processor) AS processor,
        CASE
          WHEN correction.id IS NOT NULL THEN correction.customer_id
          WHEN billed.processor IS NOT NULL THEN billed.customer_id
          ELSE stream.customer_id
        END AS customer_id
      FROM ${streamTable(streams)} AS stream (place, account_id, mode, kind, first_second, processor, customer_id)
      -- The limits and offsets keep the planner from reading whole tables: it goes through the indexes, stream by stream.
      CROSS JOIN LATERAL (
        SELECT DISTINCT second
        FROM (
          SELECT second
          FROM usage_fact
          WHERE account_id = stream.account_id
            AND mode = stream.mode
            AND kind = stream.kind
            AND meter_event_id IS NULL
            AND second >= stream.first_second
            AND second <= ${lastSecond}
          ORDER BY second
          LIMIT ${facts}
        ) AS first
      ) AS oldest
      CROSS JOIN LATERAL (
        SELECT *
        FROM usage_fact
        WHERE account_id = stream.account_id
          AND mode = stream.mode
          AND kind = stream.kind
          AND meter_event_id IS NULL
          AND second = oldest.second
        OFFSET 0
      ) AS fact
      LEFT JOIN usage_correction AS correction ON correction.id = fact.correction_id
      ${originalTargets(mayBeBilledSince(heldAt))}
    ),
    ${fittingFacts}
    SELECT
      place,
      second,
      array_agg(id::text) AS ids,
      sum(quantity)::bigint AS quantity,
      sum(already_reported)::bigint AS "alreadyReported",
      held,
      processor,
      customer_id AS "customerId"
    FROM fitting
    WHERE fits
    GROUP BY place, second, held, processor, customer_id
    ORDER BY place, second, held DESC, processor, customer_id
  `);
  const parts: UnsealedPart[][] = streams.map(() => []);
  for (const { place, ...part } of rows) {
    parts[place]?.push(part);
  }
  return parts;
};

/** A meter event to insert, with the facts that it sums up. */
export type SealedEvent = {
  readonly stream: Owner;
  readonly factIds: readonly string[];
  readonly second: number;
  readonly quantity: bigint;
  readonly alreadyReported: bigint;
  readonly processor: StoredMeterEvent["processor"];
  readonly customerId: string | null;
  /** `sending`: its first attempt begins with the sealing. */
  readonly state: Extract<MeterEventState, "sealed" | "sending" | "void" | "held">;
};

/**
 * Inserts the next sealings of seconds and assigns their facts to them. Must run under the streams' locks, which keep the
 * sequences free of gaps.
 * @param leasedUntil when the leases of the attempts that begin with the sealing end; null if there are none
 * @returns the events in their order
 */
export const insertMeterEvents = (
  transaction: DatabaseTransactionConnection,
  events: readonly SealedEvent[],
  sealedAt: Date,
  leasedUntil: Date | null = null,
): Promise<readonly StoredMeterEvent[]> =>
  transaction.any(sql.type(meterEventRow)`
    WITH sealing AS (
      SELECT
        place::integer, account_id, mode, kind, second, quantity, already_reported, stem, processor, customer_id, state,
        ${lastSequenceOf({
          accountId: sql.fragment`event.account_id`,
          mode: sql.fragment`event.mode`,
          kind: sql.fragment`event.kind`,
          second: sql.fragment`event.second`,
        })} + row_number() OVER (PARTITION BY account_id, mode, kind, second ORDER BY place) AS sequence
      FROM ${sql.unnest(
        events.map(({ stream, second, quantity, ...event }, index) => [
          index,
          stream.accountId,
          stream.mode,
          stream.kind,
          second,
          quantity,
          event.alreadyReported,
          meterEventIdentifierStem(stream, second),
          event.processor,
          event.customerId,
          event.state,
        ]),
        ["int8", "uuid", "text", "text", "int8", "int8", "int8", "text", "text", "text", "text"],
      )} AS event (
        place, account_id, mode, kind, second, quantity, already_reported, stem, processor, customer_id, state
      )
    ),
    inserted AS (
      INSERT INTO meter_event
        (
          account_id, mode, kind, second, sequence, quantity, already_reported, identifier, processor, customer_id,
          state, sealed_at, settled_at, attempts, first_attempt_at, leased_until
        )
      SELECT
        account_id, mode, kind, second, sequence, quantity, already_reported, stem || sequence, processor, customer_id,
        state, sealed_at,
        CASE WHEN state NOT IN (${UNFINISHED}) THEN sealed_at END,
        CASE WHEN state = 'sending' THEN 1 ELSE 0 END,
        CASE WHEN state = 'sending' THEN sealed_at END,
        CASE WHEN state = 'sending' THEN ${timestamp(leasedUntil)} END
      FROM sealing
      CROSS JOIN (VALUES (${timestamp(sealedAt)})) AS time (sealed_at)
      ORDER BY place
      RETURNING *
    ),
    assignment AS MATERIALIZED (
      SELECT fact.id AS fact_id, inserted.id AS meter_event_id
      FROM ${sql.unnest(
        events.flatMap(({ factIds }, index) => factIds.map((id) => [index, id])),
        ["int8", "int8"],
      )} AS fact (place, id)
      JOIN sealing ON sealing.place = fact.place
      JOIN inserted ON inserted.identifier = sealing.stem || sealing.sequence
    ),
    assigned AS (
      UPDATE usage_fact
      SET meter_event_id = assignment.meter_event_id
      FROM assignment
      WHERE usage_fact.id = assignment.fact_id
        -- Without it the planner reads all facts to find hundreds of them.
        AND usage_fact.id = ANY(${sql.array(
          events.flatMap(({ factIds }) => factIds),
          "int8",
        )})
    )
    SELECT ${meterEventColumns}
    FROM inserted AS meter_event
    JOIN sealing ON meter_event.identifier = sealing.stem || sealing.sequence
    ORDER BY sealing.place
  `);
