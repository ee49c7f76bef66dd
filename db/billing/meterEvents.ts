import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { MeterEventState, UsageStream } from "../../domain/billing/usage.ts";
import { meterEventIdentifierStem } from "../../domain/billing/usage.ts";
import { meterEventStateColumn, processorColumn, safeInteger, streamColumns } from "../columns.ts";
import { isLeaseOver } from "../leases.ts";
import type { Lease } from "../leases.ts";
import { UNFINISHED } from "./meterEventStates.ts";
import { nothing, sql } from "../sql.ts";

const meterEventRow = z.strictObject({
  id: z.bigint(),
  ...streamColumns,
  second: safeInteger,
  quantity: safeInteger,
  identifier: z.string(),
  processor: processorColumn,
  customerId: z.string().nullable(),
  keyGeneration: z.int(),
  state: meterEventStateColumn,
  attempts: z.int(),
  firstAttemptAt: z.date().nullable(),
  leasedUntil: z.date().nullable(),
  outcomeUnknown: z.boolean(),
  lastError: z.string().nullable(),
  settledAt: z.date().nullable(),
});

/** A sealed sum of usage facts and what became of it. */
export type StoredMeterEvent = Readonly<z.output<typeof meterEventRow>>;

const columns = sql.fragment`
  meter_event.id,
  meter_event.account_id AS "accountId",
  meter_event.mode,
  meter_event.meter,
  meter_event.second,
  meter_event.quantity,
  meter_event.identifier,
  meter_event.processor,
  meter_event.customer_id AS "customerId",
  meter_event.key_generation AS "keyGeneration",
  meter_event.state,
  meter_event.attempts,
  meter_event.first_attempt_at AS "firstAttemptAt",
  meter_event.leased_until AS "leasedUntil",
  meter_event.outcome_unknown AS "outcomeUnknown",
  meter_event.last_error AS "lastError",
  meter_event.settled_at AS "settledAt"
`;

/** Serializes whoever seals, retries or otherwise rearranges the facts of a stream, until the transaction ends. */
export const lockStream = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, meter }: UsageStream,
): Promise<void> => {
  await transaction.query(sql.prepared("lock_stream", nothing)`
    SELECT FROM (SELECT pg_advisory_xact_lock(hashtextextended(${`usage/${accountId}/${mode}/${meter}`}, 0))) AS locked
  `);
};

export const findUnfinishedMeterEvent = (
  db: CommonQueryMethods,
  { accountId, mode, meter }: UsageStream,
): Promise<StoredMeterEvent | null> =>
  db.maybeOne(sql.prepared("find_unfinished_meter_event", meterEventRow)`
    SELECT ${columns}
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
    SELECT ${columns}
    FROM meter_event
    WHERE id = ${id}
  `);

/**
 * Puts the next sealing of a second on record, and its facts into it. Must run under the stream's lock, which keeps the
 * sequence gapless.
 */
export const insertMeterEvent = (
  transaction: DatabaseTransactionConnection,
  stream: UsageStream,
  factIds: readonly string[],
  event: {
    readonly second: number;
    readonly quantity: bigint;
    readonly processor: StoredMeterEvent["processor"];
    readonly customerId: string | null;
    readonly state: Extract<MeterEventState, "sealed" | "void" | "held">;
    readonly sealedAt: Date;
  },
): Promise<StoredMeterEvent> => {
  const { accountId, mode, meter } = stream;
  const sealedAt = event.sealedAt.toISOString();
  return transaction.one(sql.prepared("insert_meter_event", meterEventRow)`
    WITH next AS (
      SELECT coalesce(max(sequence), 0) + 1 AS sequence
      FROM meter_event
      WHERE account_id = ${accountId}
        AND mode = ${mode}
        AND meter = ${meter}
        AND second = ${event.second}
    ),
    inserted AS (
      INSERT INTO meter_event
        (account_id, mode, meter, second, sequence, quantity, identifier, processor, customer_id, state, sealed_at, settled_at)
      SELECT
        ${accountId}, ${mode}, ${meter}, ${event.second}, sequence, ${event.quantity},
        ${meterEventIdentifierStem(stream, event.second)} || sequence, ${event.processor}, ${event.customerId},
        ${event.state}, ${sealedAt}::timestamptz, ${event.state === "sealed" ? null : sealedAt}::timestamptz
      FROM next
      RETURNING *
    ),
    assigned AS (
      UPDATE usage_fact
      SET meter_event_id = inserted.id
      FROM inserted
      WHERE usage_fact.id = ANY(${sql.array(factIds, "int8")})
    )
    SELECT ${columns}
    FROM inserted AS meter_event
  `);
};

/**
 * Puts an attempt on record before it is made and leases the event to it.
 * @returns null when another attempt still holds the lease, or the event is settled
 */
export const beginAttempt = (
  db: CommonQueryMethods,
  id: bigint,
  lease: Lease,
): Promise<StoredMeterEvent | null> =>
  db.maybeOne(sql.prepared("begin_attempt", meterEventRow)`
    UPDATE meter_event
    SET
      state = 'sending',
      attempts = attempts + 1,
      first_attempt_at = coalesce(first_attempt_at, ${lease.now.toISOString()}),
      -- A lease that nobody gave back: that attempt ended without our knowing how.
      outcome_unknown = outcome_unknown OR leased_until IS NOT NULL,
      leased_until = ${lease.until.toISOString()}
    WHERE id = ${id}
      AND state IN (${UNFINISHED})
      AND ${isLeaseOver(sql.fragment`leased_until`, lease)}
    RETURNING ${columns}
  `);

/** An attempt as `beginAttempt` answered it. Once another one has begun, or the event is settled, it has no say any more. */
export type Attempt = Pick<StoredMeterEvent, "id" | "attempts">;

const underWay = ({ id, attempts }: Attempt): FragmentSqlToken => sql.fragment`
  id = ${id} AND attempts = ${attempts} AND state = 'sending'
`;

/** Puts on record that an attempt settled nothing, and gives the lease back. */
export const recordRetry = async (
  db: CommonQueryMethods,
  attempt: Attempt,
  retry: {
    readonly reason: string;
    readonly outcomeUnknown: boolean;
    readonly newKey: boolean;
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      leased_until = NULL,
      outcome_unknown = outcome_unknown OR ${retry.outcomeUnknown},
      key_generation = key_generation + ${retry.newKey ? 1 : 0},
      last_error = ${retry.reason}
    WHERE ${underWay(attempt)}
  `);
};

/**
 * Keeps others away from an event for as long as its attempt still takes.
 * @returns whether it does: an attempt that another one has followed must not be made any more
 */
export const renewLease = async (
  db: CommonQueryMethods,
  attempt: Attempt,
  leasedUntil: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET leased_until = ${leasedUntil.toISOString()}
    WHERE ${underWay(attempt)}
  `);
  return rowCount > 0;
};

/** Ends an event's life with what its attempt led to. */
export const settleAttempt = async (
  db: CommonQueryMethods,
  attempt: Attempt,
  settlement: {
    readonly state: Extract<MeterEventState, "delivered" | "rejected" | "expired" | "blocked">;
    readonly reason: string | null;
    readonly settledAt: Date;
  },
): Promise<void> => {
  await db.query(sql.prepared("settle_attempt", nothing)`
    UPDATE meter_event
    SET
      state = ${settlement.state},
      leased_until = NULL,
      last_error = coalesce(${settlement.reason}, last_error),
      settled_at = ${settlement.settledAt.toISOString()}
    WHERE ${underWay(attempt)}
  `);
};

/**
 * Takes a failed event to the state that a person's decision leaves it in. Must run under the stream's lock.
 * @param note what the person said, put before the last error; null to leave that as it is
 */
export const settleFailedEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  settlement: {
    readonly state: Extract<MeterEventState, "delivered" | "superseded" | "waived">;
    readonly note: string | null;
    readonly settledAt: Date;
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = ${settlement.state},
      last_error = nullif(concat_ws('; before: ', ${settlement.note}::text, last_error), ''),
      settled_at = ${settlement.settledAt.toISOString()}
    WHERE id = ${id}
  `);
};

const othersRow = z.strictObject({
  delivered: z.bigint().transform(Number),
  lastDeliveredAt: z.date().nullable(),
  isSending: z.boolean(),
  version: z.string(),
});

/**
 * What is on record of a customer's other events in a span of seconds, half-open: the units delivered, when the last
 * were, whether one is being sent, and a text that any change of theirs changes.
 */
export type OtherEvents = Readonly<z.output<typeof othersRow>>;

export const sumOtherEvents = (
  db: CommonQueryMethods,
  { id, accountId, mode, meter, processor, customerId }: StoredMeterEvent,
  span: { readonly start: number; readonly end: number },
): Promise<OtherEvents> =>
  db.one(sql.type(othersRow)`
    SELECT
      coalesce(sum(quantity) FILTER (WHERE state = 'delivered'), 0)::bigint AS delivered,
      max(settled_at) FILTER (WHERE state = 'delivered') AS "lastDeliveredAt",
      coalesce(bool_or(state = 'sending'), false) AS "isSending",
      coalesce(string_agg(id || state || attempts, ' ' ORDER BY id), '') AS version
    FROM meter_event
    WHERE account_id = ${accountId}
      AND mode = ${mode}
      AND meter = ${meter}
      AND processor = ${processor}
      AND customer_id IS NOT DISTINCT FROM ${customerId}
      AND second >= ${span.start}
      AND second < ${span.end}
      AND id <> ${id}
  `);
