import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { jsonRows } from "../../../db/jsonRows.ts";
import { afterLookup, sql, timestamp } from "../../../db/sql.ts";
import { meterEventRow } from "../meterEvents.rules.ts";
import { meterEventColumns } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";
import { isResumable, leaseEnd } from "./waitingStreams.sql.ts";

/*
 * Each statement is about many events, which costs little more than about one. Rows are locked in the order of their ids,
 * so two statements cannot wait for each other.
 */

/**
 * Records further attempts before they are made, and leases the events to them. An event whose last attempt is recorded
 * meanwhile is left out. Must run under the streams' locks, so that no other event of theirs is sent.
 */
export const beginAttempts = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
  now: Date,
): Promise<readonly StoredMeterEvent[]> =>
  ids.length === 0
    ? []
    : transaction.any(sql.type(meterEventRow)`
    WITH due AS (
      SELECT id
      FROM meter_event
      WHERE id = ANY(${sql.array([...ids], "int8")})
        AND ${afterLookup(sql.fragment`state = 'pending'`)}
        AND ${isResumable(now)}
      ORDER BY id
      FOR UPDATE SKIP LOCKED
    )
    UPDATE meter_event
    SET
      attempts = attempts + 1,
      -- After the first one by a fast clock, an identifier would be trusted for longer than the processor knows it.
      first_attempt_at = CASE
        WHEN asking_since IS NULL THEN least(first_attempt_at, ${timestamp(now)})
        ELSE first_attempt_at
      END,
      -- The lease expired before it was released, so the outcome of that attempt was never recorded.
      may_be_delivered = may_be_delivered OR leased_until IS NOT NULL,
      leased_until = ${timestamp(leaseEnd(now))},
      retry_at = NULL
    FROM due
    WHERE meter_event.id = due.id
    RETURNING ${meterEventColumns}
  `);

/** What an attempt has led to. It changes its event unless another attempt has begun or the event is settled. */
export type RecordedOutcome = {
  readonly event: Pick<StoredMeterEvent, "id" | "attempts">;
  readonly result: SendResult;
  readonly now: Date;
};

const OUTCOME = {
  id: "int8",
  attempts: "int8",
  state: "text",
  failure: "text",
  cause: "text",
  reason: "text",
  outcomeUnknown: "bool",
  newKey: "bool",
  afterMs: "float8",
  now: "timestamptz",
} as const;

const idRow = z.strictObject({ id: z.bigint() });

/** Records outcomes and releases the leases. Returns the ids of the events whose attempt no other one has followed. */
export const recordOutcomes = (db: CommonQueryMethods, outcomes: readonly RecordedOutcome[]) =>
  db.anyFirst(sql.type(idRow)`
    WITH outcome AS MATERIALIZED (${jsonRows(
      OUTCOME,
      outcomes.map(({ event: { id, attempts }, result, now }) =>
        Object.assign({ id: String(id), attempts, now }, result),
      ),
    )}),
    current AS (
      SELECT meter_event.id
      FROM meter_event
      JOIN outcome ON outcome.id = meter_event.id AND outcome.attempts = meter_event.attempts
      WHERE ${afterLookup(sql.fragment`meter_event.state = 'pending'`)}
      ORDER BY meter_event.id
      FOR UPDATE OF meter_event
    )
    UPDATE meter_event
    SET
      state = coalesce(outcome.state, 'pending'),
      failure = outcome.failure,
      leased_until = NULL,
      retry_at = outcome.now + interval '1 millisecond' * outcome.after_ms,
      may_be_delivered = coalesce(outcome.outcome_unknown, false)
        OR (meter_event.may_be_delivered AND outcome.state IS DISTINCT FROM 'delivered'),
      asking_since = CASE WHEN outcome.cause = 'asking' THEN outcome.now ELSE meter_event.asking_since END,
      key_generation = key_generation + CASE WHEN outcome.new_key THEN 1 ELSE 0 END,
      last_error = coalesce(outcome.reason, last_error),
      settled_at = CASE WHEN outcome.state IS NOT NULL THEN outcome.now END
    FROM current
    JOIN outcome USING (id)
    WHERE meter_event.id = current.id
    RETURNING meter_event.id
  `);
