import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Owner } from "../../records/owner.rules.ts";
import type { MeterEventState } from "../meterEvents.rules.ts";
import { ownerColumns } from "../../records/columns.sql.ts";
import { isLeaseFree } from "../../../db/leases.ts";
import type { Lease } from "../../../db/leases.ts";
import { afterLookup, sql, timestamp } from "../../../db/sql.ts";
import { isUsageFlowing } from "../deployment.sql.ts";
import { meterEventColumns, meterEventRow, UNFINISHED } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";

/*
 * The attempts to send meter events. Each statement is about many events, which costs little more than about one. Rows are
 * locked in the order of their ids, so two statements cannot wait for each other.
 */

/**
 * Records attempts before they are made, and leases the meter events to them. An event is left out if another attempt
 * holds its lease, if it is settled, or if usage is held. So is one that another transaction is changing.
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
        AND ${afterLookup(sql.fragment`state IN (${UNFINISHED})`)}
        AND ${isLeaseFree(sql.fragment`leased_until`, lease)}
        AND ${isUsageFlowing}
      ORDER BY id
      FOR UPDATE SKIP LOCKED
    )
    UPDATE meter_event
    SET
      state = 'sending',
      attempts = attempts + 1,
      -- After the first one by a fast clock, an identifier would be trusted for longer than the processor knows it.
      first_attempt_at = least(first_attempt_at, ${timestamp(lease.now)}),
      -- The lease expired before it was released, so the outcome of that attempt was never recorded.
      outcome_unknown = outcome_unknown OR leased_until IS NOT NULL,
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
    SET state = 'sealed', attempts = 0, first_attempt_at = NULL, leased_until = NULL
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
  WHERE ${afterLookup(sql.fragment`meter_event.state = 'sending'`)}
  ORDER BY meter_event.id
  FOR UPDATE OF meter_event
`;

export type AttemptDelay = Attempt & {
  readonly reason: string;
  readonly outcomeUnknown: boolean;
  readonly newKey: boolean;
  /** If given, the event is in doubt since then. */
  readonly inDoubtSince: Date | null;
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
      outcome_unknown = meter_event.outcome_unknown OR delay.outcome_unknown,
      in_doubt_since = coalesce(delay.in_doubt_since, meter_event.in_doubt_since),
      key_generation = key_generation + delay.new_keys,
      last_error = delay.reason
    FROM current
    JOIN ${sql.unnest(
      delays.map(({ id, reason, outcomeUnknown, newKey, inDoubtSince, retryAt }) => [
        id,
        reason,
        outcomeUnknown,
        newKey ? 1 : 0,
        inDoubtSince?.toISOString() ?? null,
        retryAt.toISOString(),
      ]),
      ["int8", "text", "bool", "int4", "timestamptz", "timestamptz"],
    )} AS delay (id, reason, outcome_unknown, new_keys, in_doubt_since, retry_at) USING (id)
    WHERE meter_event.id = current.id
  `);
};

const streamRow = z.strictObject(ownerColumns);

/**
 * Makes the next attempt of delayed meter events due at a time, for the senders of their shards.
 * @param accountId null: of all accounts
 * @returns the streams of the events that were delayed
 */
export const endDelays = (
  db: CommonQueryMethods,
  accountId: string | null,
  due: Date,
): Promise<readonly Owner[]> =>
  db.any(sql.type(streamRow)`
    WITH delayed AS (
      SELECT id
      FROM meter_event
      WHERE state = 'sending'
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
    RETURNING account_id AS "accountId", mode, kind
  `);

/**
 * Extends an attempt's lease.
 * @returns false if another attempt has begun, or usage is held; this one must then not call the processor
 */
export const renewLease = async (
  db: CommonQueryMethods,
  { id, attempts }: Attempt,
  leasedUntil: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET leased_until = ${timestamp(leasedUntil)}
    WHERE id = ${id}
      AND attempts = ${attempts}
      AND ${afterLookup(sql.fragment`state = 'sending'`)}
      AND ${isUsageFlowing}
  `);
  return rowCount > 0;
};

export type AttemptSettlement = Attempt & {
  readonly state: Extract<
    MeterEventState,
    "delivered" | "superseded" | "rejected" | "expired" | "blocked"
  >;
  /** Replaces the last error, unless it is null. */
  readonly reason: string | null;
  /** Replaces the quantity, unless it is null: the part that the processor has. */
  readonly acceptedQuantity: number | null;
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
      quantity = coalesce(settlement.accepted_quantity, quantity),
      leased_until = NULL,
      outcome_unknown = outcome_unknown OR settlement.state = 'blocked',
      last_error = coalesce(settlement.reason, last_error),
      settled_at = settlement.settled_at
    FROM current
    JOIN ${sql.unnest(
      settlements.map(({ id, state, reason, acceptedQuantity, settledAt }) => [
        id,
        state,
        reason,
        acceptedQuantity,
        settledAt.toISOString(),
      ]),
      ["int8", "text", "text", "int8", "timestamptz"],
    )} AS settlement (id, state, reason, accepted_quantity, settled_at) USING (id)
    WHERE meter_event.id = current.id
    RETURNING meter_event.id
  `);
  return new Set(ids);
};
