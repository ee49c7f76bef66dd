import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { HandSettlement } from "../../domain/billing/decideHandSettlement.ts";
import { SETTLEMENT_KINDS } from "../../domain/billing/decideHandSettlement.ts";
import type { MeterEventState } from "../../domain/billing/meterEvents.ts";
import { MAXIMUM_DELAY_MS } from "../../domain/billing/decideNextStep.ts";
import { FAILED_STATES, UNFINISHED_STATES } from "../../domain/billing/meterEvents.ts";
import type { ProcessorName, UsageStream } from "../../domain/billing/usage.ts";
import { meterEventIdentifierStem } from "../../domain/billing/usage.ts";
import { meterEventStateColumn, processorColumn, safeInteger, streamColumns } from "../columns.ts";
import { isLeaseFree } from "../leases.ts";
import type { Lease } from "../leases.ts";
import { sql, timestamp } from "../sql.ts";
import { lastSequenceOf } from "./folding/foldedUsage.ts";
import { streamsTable } from "./streams.ts";

export const meterEventRow = z.strictObject({
  id: z.bigint(),
  ...streamColumns,
  second: safeInteger,
  quantity: safeInteger,
  alreadyReported: safeInteger,
  identifier: z.string(),
  processor: processorColumn,
  customerId: z.string().nullable(),
  keyGeneration: z.int(),
  state: meterEventStateColumn,
  attempts: z.int(),
  firstAttemptAt: z.date().nullable(),
  leasedUntil: z.date().nullable(),
  retryAt: z.date().nullable(),
  hasOwnSender: z.boolean(),
  outcomeUnknown: z.boolean(),
  inDoubtSince: z.date().nullable(),
  lastError: z.string().nullable(),
  sealedAt: z.date(),
  settledAt: z.date().nullable(),
  settlementKind: z.enum(SETTLEMENT_KINDS).nullable(),
  settlementReference: z.string().nullable(),
});

export type StoredMeterEvent = Readonly<z.output<typeof meterEventRow>>;

export const meterEventColumns = sql.fragment`
  meter_event.id,
  meter_event.account_id AS "accountId",
  meter_event.mode,
  meter_event.meter,
  meter_event.second,
  meter_event.quantity,
  meter_event.already_reported AS "alreadyReported",
  meter_event.identifier,
  meter_event.processor,
  meter_event.customer_id AS "customerId",
  meter_event.key_generation AS "keyGeneration",
  meter_event.state,
  meter_event.attempts,
  meter_event.first_attempt_at AS "firstAttemptAt",
  meter_event.leased_until AS "leasedUntil",
  meter_event.retry_at AS "retryAt",
  meter_event.has_own_sender AS "hasOwnSender",
  meter_event.outcome_unknown AS "outcomeUnknown",
  meter_event.in_doubt_since AS "inDoubtSince",
  meter_event.last_error AS "lastError",
  meter_event.sealed_at AS "sealedAt",
  meter_event.settled_at AS "settledAt",
  meter_event.settlement_kind AS "settlementKind",
  meter_event.settlement_reference AS "settlementReference"
`;

/** States for `state IN (…)`. PostgreSQL uses the partial indexes over states only if they are constants. */
const constants = (states: readonly MeterEventState[]): FragmentSqlToken =>
  sql.fragment`${sql.join(
    states.map((state) => sql.literalValue(state)),
    sql.fragment`, `,
  )}`;

export const UNFINISHED = constants(UNFINISHED_STATES);

export const FAILED = constants(FAILED_STATES);

export const findUnfinishedMeterEvent = (
  db: CommonQueryMethods,
  { accountId, mode, meter }: UsageStream,
): Promise<StoredMeterEvent | null> =>
  db.maybeOne(sql.prepared("find_unfinished_meter_event", meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE account_id = ${accountId}
      AND mode = ${mode}
      AND meter = ${meter}
      AND state IN (${UNFINISHED})
  `);

export const findMeterEvent = (
  db: CommonQueryMethods,
  id: bigint,
): Promise<StoredMeterEvent | null> =>
  db.maybeOne(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE id = ${id}
  `);

/** Locks a meter event's row until the transaction ends, and returns it. */
export const lockMeterEventRow = (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<StoredMeterEvent | null> =>
  transaction.maybeOne(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE id = ${id}
    FOR NO KEY UPDATE
  `);

/** Lists the processor's events with these identifiers; unknown ones are left out. */
export const listMeterEventsByIdentifier = (
  db: CommonQueryMethods,
  processor: ProcessorName,
  identifiers: readonly string[],
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE identifier = ANY(${sql.array([...identifiers], "text")}) AND processor = ${processor}
    ORDER BY id
  `);

/**
 * The condition of an unfinished event that a shard's sender continues with: one that was never attempted, one whose attempt
 * ended with its process, or one whose retry is due, unless its stream's own sender makes that. A retry that is due later
 * than any delay lasts was recorded before the clock was set back.
 */
export const isResumable = (lease: Lease): FragmentSqlToken => {
  const longestDelay = new Date(lease.now.getTime() + 2 * MAXIMUM_DELAY_MS);
  return sql.fragment`(
    meter_event.state = 'sealed'
    OR (
      meter_event.leased_until IS NOT NULL
      AND ${isLeaseFree(sql.fragment`meter_event.leased_until`, lease)}
    )
    OR (
      meter_event.leased_until IS NULL
      AND NOT meter_event.has_own_sender
      AND coalesce(
        meter_event.retry_at <= ${timestamp(lease.now)} OR meter_event.retry_at > ${timestamp(longestDelay)},
        true
      )
    )
  )`;
};

const unfinishedRow = meterEventRow.extend({ isResumable: z.boolean() });

/** Returns the unfinished events of the streams that have one, and whether a shard's sender continues with them. */
export const listUnfinishedMeterEvents = (
  db: CommonQueryMethods,
  streams: readonly UsageStream[],
  lease: Lease,
): Promise<readonly Readonly<z.output<typeof unfinishedRow>>[]> =>
  db.any(sql.type(unfinishedRow)`
    SELECT ${meterEventColumns}, ${isResumable(lease)} AS "isResumable"
    FROM ${streamsTable(streams)}
    CROSS JOIN LATERAL (
      SELECT *
      FROM meter_event
      WHERE account_id = stream.account_id
        AND mode = stream.mode
        AND meter = stream.meter
        AND state IN (${UNFINISHED})
      -- Keeps the planner from reading all unfinished events for a few streams.
      OFFSET 0
    ) AS meter_event
  `);

/** A meter event to insert, with the facts that it sums up. */
export type SealedEvent = {
  readonly stream: UsageStream;
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
        place::integer, account_id, mode, meter, second, quantity, already_reported, stem, processor, customer_id, state,
        ${lastSequenceOf({
          accountId: sql.fragment`event.account_id`,
          mode: sql.fragment`event.mode`,
          meter: sql.fragment`event.meter`,
          second: sql.fragment`event.second`,
        })} + row_number() OVER (PARTITION BY account_id, mode, meter, second ORDER BY place) AS sequence
      FROM ${sql.unnest(
        events.map(({ stream, second, quantity, ...event }, index) => [
          index,
          stream.accountId,
          stream.mode,
          stream.meter,
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
        place, account_id, mode, meter, second, quantity, already_reported, stem, processor, customer_id, state
      )
    ),
    inserted AS (
      INSERT INTO meter_event
        (
          account_id, mode, meter, second, sequence, quantity, already_reported, identifier, processor, customer_id,
          state, sealed_at, settled_at, attempts, first_attempt_at, leased_until
        )
      SELECT
        account_id, mode, meter, second, sequence, quantity, already_reported, stem || sequence, processor, customer_id,
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

/** The last error of an event with a note before it. */
export const noteBeforeError = (note: string | null): FragmentSqlToken =>
  sql.fragment`nullif(concat_ws('; before: ', ${note}::text, last_error), '')`;

/**
 * Moves a settled event to the state that a later decision leads to: an operator's, or the processor's. The outcome of one
 * that is blocked stays unknown, whatever its next state is. Must run under the stream's lock.
 */
export const moveSettledEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  settlement: {
    readonly state: Extract<
      MeterEventState,
      "delivered" | "rejected" | "blocked" | "superseded" | "waived"
    >;
    /** The reason, put before the last error. */
    readonly note: string | null;
    /** With what an operator settled it by hand. Without one, an earlier document stays. */
    readonly document?: HandSettlement;
    /** Replaces the quantity, unless it is null: the part that the processor has. */
    readonly acceptedQuantity: number | null;
    /** Replaces the customer, unless it is null: the one whose sums have the usage. */
    readonly customerId?: string | null;
    readonly settledAt: Date;
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = ${settlement.state},
      quantity = coalesce(${settlement.acceptedQuantity}::bigint, quantity),
      customer_id = coalesce(${settlement.customerId ?? null}, customer_id),
      outcome_unknown = outcome_unknown OR ${settlement.state === "blocked"},
      settlement_kind = coalesce(${settlement.document?.kind ?? null}, settlement_kind),
      settlement_reference = coalesce(${settlement.document?.reference ?? null}, settlement_reference),
      last_error = ${noteBeforeError(settlement.note)},
      settled_at = ${timestamp(settlement.settledAt)}
    WHERE id = ${id}
  `);
};

/** Returns whether an attempt of a stream, or of any stream (null), may be in progress. */
export const isAttemptInProgress = (
  db: CommonQueryMethods,
  stream: UsageStream | null,
  lease: Lease,
): Promise<boolean> => {
  const isOfStream =
    stream === null
      ? sql.fragment`true`
      : sql.fragment`account_id = ${stream.accountId} AND mode = ${stream.mode} AND meter = ${stream.meter}`;
  return db.exists(sql.typeAlias("void")`
    SELECT
    FROM meter_event
    WHERE state IN (${UNFINISHED})
      AND ${isOfStream}
      AND NOT ${isLeaseFree(sql.fragment`leased_until`, lease)}
  `);
};

/**
 * Records that usage which counts as not sent may have been: it has failed, was waived, or is a refund that is held. A retry
 * of it checks the processor's sums first.
 */
export const doubtUnsentEvents = async (db: CommonQueryMethods): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH unsent AS (
      SELECT id
      FROM meter_event
      WHERE (state IN (${FAILED}) OR state = 'waived' OR state = 'held')
        AND processor = 'stripe'
        AND NOT outcome_unknown
      -- Other statements lock rows in this order, too.
      ORDER BY id
      FOR NO KEY UPDATE
    )
    UPDATE meter_event
    SET outcome_unknown = true
    FROM unsent
    WHERE meter_event.id = unsent.id
  `);
};

/** Records the same of one event. */
export const doubtEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET outcome_unknown = true
    WHERE id = ${id} AND processor = 'stripe'
  `);
};

/** Lists the blocked live events that were settled at a time. */
export const listBlockedEventsSettledAt = (
  db: CommonQueryMethods,
  settledAt: Date,
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE state = 'blocked' AND mode = 'live' AND settled_at = ${timestamp(settledAt)}
    ORDER BY id
  `);

/** Changes the time at which blocked live events were settled. */
export const redateBlockedEvents = async (
  transaction: DatabaseTransactionConnection,
  { from, to }: { readonly from: Date; readonly to: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH blocked AS (
      SELECT id
      FROM meter_event
      WHERE state = 'blocked' AND mode = 'live' AND settled_at = ${timestamp(from)}
      -- Other statements lock rows in this order, too.
      ORDER BY id
      FOR NO KEY UPDATE
    )
    UPDATE meter_event
    SET settled_at = ${timestamp(to)}
    FROM blocked
    WHERE meter_event.id = blocked.id
  `);
};
