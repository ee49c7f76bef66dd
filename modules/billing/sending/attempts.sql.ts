import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { isLeaseFree } from "../../../db/leases.ts";
import type { Lease } from "../../../db/leases.ts";
import { afterLookup, sql, timestamp } from "../../../db/sql.ts";
import { isUsageFlowing } from "../deployment.sql.ts";
import { meterEventColumns, meterEventRow } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import type { Settlement } from "./decideNextStep.rules.ts";

/*
 * The attempts to send meter events. Each statement is about many events, which costs little more than about one. Rows are
 * locked in the order of their ids, so two statements cannot wait for each other.
 */

/**
 * Records attempts before they are made, and leases the meter events to them. An event is left out if another attempt
 * holds its lease, if it is settled, if another event of its stream is being sent, or if usage is held. So is one that another
 * transaction is changing.
 */
export const beginAttempts = (
  db: CommonQueryMethods,
  ids: readonly bigint[],
  lease: Lease,
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    WITH free AS (
      SELECT id
      FROM meter_event
      WHERE id = ANY(${sql.array([...ids], "int8")})
        AND ${afterLookup(sql.fragment`state = 'pending'`)}
        AND ${isLeaseFree(sql.fragment`leased_until`, lease)}
        AND (
          first_attempt_at IS NOT NULL
          OR asking_since IS NOT NULL
          OR NOT EXISTS (
            SELECT
            FROM meter_event AS sending
            WHERE sending.account_id = meter_event.account_id
              AND sending.mode = meter_event.mode
              AND sending.kind = meter_event.kind
              AND sending.state = 'pending'
              AND sending.first_attempt_at IS NOT NULL
              AND sending.asking_since IS NULL
            OFFSET 0
          )
        )
        AND ${isUsageFlowing}
      ORDER BY id
      FOR UPDATE SKIP LOCKED
    )
    UPDATE meter_event
    SET
      attempts = attempts + 1,
      -- After the first one by a fast clock, an identifier would be trusted for longer than the processor knows it.
      first_attempt_at = CASE
        WHEN asking_since IS NULL THEN least(first_attempt_at, ${timestamp(lease.now)})
        ELSE first_attempt_at
      END,
      -- The lease expired before it was released, so the outcome of that attempt was never recorded.
      may_be_delivered = may_be_delivered OR leased_until IS NOT NULL,
      leased_until = ${timestamp(lease.until)},
      retry_at = NULL
    FROM free
    WHERE meter_event.id = free.id
    RETURNING ${meterEventColumns}
  `);

/** Takes back attempts that began in this transaction, with the sealing of their events. */
export const cancelAttempts = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET attempts = 0, first_attempt_at = NULL, leased_until = NULL
    WHERE id = ANY(${sql.array([...ids], "int8")})
  `);
};

/** An attempt that has begun. It can change its event until another attempt begins or the event is settled. */
export type Attempt = Pick<StoredMeterEvent, "id" | "attempts">;

/** The events of those attempts that no other attempt has followed, locked. */
const currentEvents = (attempts: readonly Attempt[]): FragmentSqlToken => sql.fragment`
  SELECT meter_event.id
  FROM meter_event
  JOIN ${sql.unnest(
    attempts.map(({ id, attempts: number }) => [id, number]),
    ["int8", "int4"],
  )} AS attempt (id, number) ON attempt.id = meter_event.id AND attempt.number = meter_event.attempts
  WHERE ${afterLookup(sql.fragment`meter_event.state = 'pending'`)}
  ORDER BY meter_event.id
  FOR UPDATE OF meter_event
`;

export type AttemptDelay = Attempt & {
  readonly reason: string;
  readonly outcomeUnknown: boolean;
  readonly newKey: boolean;
  /** If given, the processor is asked from then on. */
  readonly askingSince: Date | null;
  /** When it is attempted again. */
  readonly retryAt: Date;
};

/** Records that attempts did not settle their events, and releases the leases. */
export const recordDelays = async (
  db: CommonQueryMethods,
  delays: readonly AttemptDelay[],
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH current AS (${currentEvents(delays)})
    UPDATE meter_event
    SET
      leased_until = NULL,
      retry_at = delay.retry_at,
      may_be_delivered = meter_event.may_be_delivered OR delay.outcome_unknown,
      asking_since = coalesce(delay.asking_since, meter_event.asking_since),
      key_generation = key_generation + delay.new_keys,
      last_error = delay.reason
    FROM current
    JOIN ${sql.unnest(
      delays.map(({ id, reason, outcomeUnknown, newKey, askingSince, retryAt }) => [
        id,
        reason,
        outcomeUnknown,
        newKey ? 1 : 0,
        askingSince?.toISOString() ?? null,
        retryAt.toISOString(),
      ]),
      ["int8", "text", "bool", "int4", "timestamptz", "timestamptz"],
    )} AS delay (id, reason, outcome_unknown, new_keys, asking_since, retry_at) USING (id)
    WHERE meter_event.id = current.id
  `);
};

/**
 * Makes the next attempt of delayed meter events due.
 * @param accountId null: of all accounts
 * @returns how many were delayed
 */
export const endDelays = async (
  db: CommonQueryMethods,
  accountId: string | null,
  due: Date,
): Promise<number> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    WITH delayed AS (
      SELECT id
      FROM meter_event
      WHERE state = 'pending'
        AND leased_until IS NULL
        AND retry_at > ${timestamp(due)}
        AND ${accountId === null ? sql.fragment`true` : sql.fragment`account_id = ${accountId}`}
      ORDER BY id
      FOR UPDATE
    )
    UPDATE meter_event
    SET retry_at = ${timestamp(due)}
    FROM delayed
    WHERE meter_event.id = delayed.id
  `);
  return rowCount;
};

export type AttemptSettlement = Attempt &
  Pick<Settlement, "state" | "failure" | "isLate"> & {
    /** Replaces the last error, unless it is null. */
    readonly reason: string | null;
    readonly settledAt: Date;
  };

const idRow = z.strictObject({ id: z.bigint() });

/**
 * Records the final states that attempts led to.
 * @returns the ids of the settled events; the others' attempts have been followed by another one
 */
export const settleAttempts = async (
  db: CommonQueryMethods,
  settlements: readonly AttemptSettlement[],
): Promise<ReadonlySet<bigint>> => {
  const ids = await db.anyFirst(sql.type(idRow)`
    WITH current AS (${currentEvents(settlements)})
    UPDATE meter_event
    SET
      state = settlement.state,
      failure = settlement.failure,
      is_late = settlement.is_late,
      leased_until = NULL,
      may_be_delivered = may_be_delivered AND settlement.state = 'failed',
      last_error = coalesce(settlement.reason, last_error),
      settled_at = settlement.settled_at
    FROM current
    JOIN ${sql.unnest(
      settlements.map(({ id, state, failure, isLate, reason, settledAt }) => [
        id,
        state,
        failure,
        isLate,
        reason,
        settledAt.toISOString(),
      ]),
      ["int8", "text", "text", "bool", "text", "timestamptz"],
    )} AS settlement (id, state, failure, is_late, reason, settled_at) USING (id)
    WHERE meter_event.id = current.id
    RETURNING meter_event.id
  `);
  return new Set(ids);
};

/**
 * Takes back the sealing of an event that the processor has certainly not accepted, so that its facts are sealed again.
 * Must run under the stream's lock.
 */
export const unseal = async (
  transaction: DatabaseTransactionConnection,
  { id, attempts }: Attempt,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH unsealed AS (
      SELECT id
      FROM meter_event
      WHERE id = ${id} AND attempts = ${attempts} AND state = 'pending' AND NOT may_be_delivered
      FOR UPDATE
    )
    UPDATE usage_fact
    SET meter_event_id = NULL
    WHERE meter_event_id = ANY(ARRAY(SELECT id FROM unsealed))
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM meter_event
    WHERE id = ${id} AND NOT EXISTS (SELECT FROM usage_fact WHERE meter_event_id = ${id})
  `);
};
