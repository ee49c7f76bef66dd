import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { HandSettlement } from "../../domain/billing/decideHandSettlement.ts";
import { SETTLEMENT_KINDS } from "../../domain/billing/decideHandSettlement.ts";
import type { MeterEventState } from "../../domain/billing/meterEvents.ts";
import { FAILED_STATES, UNFINISHED_STATES } from "../../domain/billing/meterEvents.ts";
import type { ProcessorName, UsageStream } from "../../domain/billing/usage.ts";
import { meterEventIdentifierStem } from "../../domain/billing/usage.ts";
import { meterEventStateColumn, processorColumn, safeInteger, streamColumns } from "../columns.ts";
import { isUsageFlowing } from "./deployment.ts";
import { isLeaseFree } from "../leases.ts";
import type { Lease } from "../leases.ts";
import { nothing, sql } from "../sql.ts";

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

/** Locks a stream until the transaction ends. Sealing, retrying and waiving need the lock. */
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
 * Inserts the next sealing of a second and assigns its facts to it. Must run under the stream's lock, which keeps the
 * sequence free of gaps.
 */
export const insertMeterEvent = (
  transaction: DatabaseTransactionConnection,
  stream: UsageStream,
  factIds: readonly string[],
  event: {
    readonly second: number;
    readonly quantity: bigint;
    readonly alreadyReported: bigint;
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
        (
          account_id, mode, meter, second, sequence, quantity, already_reported, identifier, processor, customer_id,
          state, sealed_at, settled_at
        )
      SELECT
        ${accountId}, ${mode}, ${meter}, ${event.second}, sequence, ${event.quantity}, ${event.alreadyReported},
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
    SELECT ${meterEventColumns}
    FROM inserted AS meter_event
  `);
};

/**
 * Records an attempt before it is made, and leases the meter event to it.
 * @returns null if another attempt holds the lease, the event is settled, or usage is held
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
      -- The lease expired before it was released, so the outcome of that attempt was never recorded.
      outcome_unknown = outcome_unknown OR leased_until IS NOT NULL,
      leased_until = ${lease.until.toISOString()}
    WHERE id = ${id}
      AND state IN (${UNFINISHED})
      AND ${isLeaseFree(sql.fragment`leased_until`, lease)}
      AND ${isUsageFlowing}
    RETURNING ${meterEventColumns}
  `);

/** An attempt that `beginAttempt` returned. It can change its event until another attempt begins or the event is settled. */
export type Attempt = Pick<StoredMeterEvent, "id" | "attempts">;

const isCurrent = ({ id, attempts }: Attempt): FragmentSqlToken => sql.fragment`
  id = ${id} AND attempts = ${attempts} AND state = 'sending'
`;

/** Records that an attempt did not settle its event, and releases the lease. */
export const recordDelay = async (
  db: CommonQueryMethods,
  attempt: Attempt,
  delay: {
    readonly reason: string;
    readonly outcomeUnknown: boolean;
    readonly newKey: boolean;
    /** If given, the event is in doubt since then. */
    readonly inDoubtSince: Date | null;
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      leased_until = NULL,
      outcome_unknown = outcome_unknown OR ${delay.outcomeUnknown},
      in_doubt_since = coalesce(${delay.inDoubtSince?.toISOString() ?? null}::timestamptz, in_doubt_since),
      key_generation = key_generation + ${delay.newKey ? 1 : 0},
      last_error = ${delay.reason}
    WHERE ${isCurrent(attempt)}
  `);
};

/**
 * Extends an attempt's lease.
 * @returns false if another attempt has begun, or usage is held; this one must then not call the processor
 */
export const renewLease = async (
  db: CommonQueryMethods,
  attempt: Attempt,
  leasedUntil: Date,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET leased_until = ${leasedUntil.toISOString()}
    WHERE ${isCurrent(attempt)} AND ${isUsageFlowing}
  `);
  return rowCount > 0;
};

/**
 * Records the final state that an attempt led to.
 * @returns false if another attempt has begun
 */
export const settleAttempt = async (
  db: CommonQueryMethods,
  attempt: Attempt,
  settlement: {
    readonly state: Extract<
      MeterEventState,
      "delivered" | "superseded" | "rejected" | "expired" | "blocked"
    >;
    /** Replaces the last error, unless it is null. */
    readonly reason: string | null;
    /** Replaces the quantity, unless it is null: the part that the processor has. */
    readonly acceptedQuantity: number | null;
    readonly settledAt: Date;
  },
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.prepared("settle_attempt", nothing)`
    UPDATE meter_event
    SET
      state = ${settlement.state},
      quantity = coalesce(${settlement.acceptedQuantity}::bigint, quantity),
      leased_until = NULL,
      last_error = coalesce(${settlement.reason}, last_error),
      settled_at = ${settlement.settledAt.toISOString()}
    WHERE ${isCurrent(attempt)}
  `);
  return rowCount > 0;
};

/**
 * Moves a settled event to the state that a later decision leads to: an operator's, or the processor's. Must run under the
 * stream's lock.
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
    /** Replaces the quantity, unless it is null: the part that the processor has. */
    readonly acceptedQuantity: number | null;
    readonly settledAt: Date;
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = ${settlement.state},
      quantity = coalesce(${settlement.acceptedQuantity}::bigint, quantity),
      last_error = nullif(concat_ws('; before: ', ${settlement.note}::text, last_error), ''),
      settled_at = ${settlement.settledAt.toISOString()}
    WHERE id = ${id}
  `);
};

/**
 * Lists a live stream's events in the built-in ledger, from a unix second on, that are delivered or will be. Must run
 * under the stream's lock.
 */
export const listLiveLedgerEvents = (
  transaction: DatabaseTransactionConnection,
  { accountId, meter }: Pick<UsageStream, "accountId" | "meter">,
  fromSecond: number,
): Promise<readonly StoredMeterEvent[]> =>
  transaction.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE account_id = ${accountId}
      AND mode = 'live'
      AND meter = ${meter}
      AND second >= ${fromSecond}
      AND processor = 'ledger'
      AND state IN ('delivered', ${UNFINISHED})
    ORDER BY second, sequence
  `);

/** Returns when the last lease of an attempt ends, or null if no call can be in progress. */
export const findLastLease = (db: CommonQueryMethods): Promise<Date | null> =>
  db.oneFirst(sql.type(z.strictObject({ leasedUntil: z.date().nullable() }))`
    SELECT max(leased_until) AS "leasedUntil"
    FROM meter_event
    WHERE state IN (${UNFINISHED})
  `);

/** Makes a retry of failed usage check the processor's sums first. */
export const doubtFailedEvents = async (
  transaction: DatabaseTransactionConnection,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET outcome_unknown = true
    WHERE state IN (${FAILED}) AND processor = 'stripe'
  `);
};

/** Lists the blocked live events that were settled at a time: usage first, then refunds, oldest first. */
export const listBlockedEventsSettledAt = (
  db: CommonQueryMethods,
  settledAt: Date,
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE state = 'blocked' AND mode = 'live' AND settled_at = ${settledAt.toISOString()}
    ORDER BY account_id, meter, quantity < 0, second, sequence
  `);

/** Records how an operator settled an event by hand. Must run under the stream's lock. */
export const recordHandSettlement = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  settlement: HandSettlement & {
    readonly state: Extract<MeterEventState, "delivered" | "waived">;
    /** The operator and the reason, put before the last error. */
    readonly note: string;
    readonly settledAt: Date;
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = ${settlement.state},
      settlement_kind = ${settlement.kind},
      settlement_reference = ${settlement.reference},
      last_error = concat_ws('; before: ', ${settlement.note}::text, last_error),
      settled_at = ${settlement.settledAt.toISOString()}
    WHERE id = ${id}
  `);
};
