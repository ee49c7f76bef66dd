import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PROCESSORS } from "./usage.rules.ts";
import type { ProcessorName } from "./usage.rules.ts";
import { DOCUMENT_KINDS, FAILURES, METER_EVENT_STATES } from "./meterEvents.rules.ts";
import type { BillingDocument, Failure } from "./meterEvents.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { shareRegistrations } from "./registrationFacts.sql.ts";
import type { BillingTarget } from "./usage.rules.ts";

export const meterEventRow = z.strictObject({
  id: z.bigint(),
  ...ownerColumns,
  second: safeInteger,
  quantity: safeInteger,
  generation: z.int(),
  identifier: z.string(),
  processor: z.enum(PROCESSORS),
  customerId: z.string().nullable(),
  keyGeneration: z.int(),
  state: z.enum(METER_EVENT_STATES),
  failure: z.enum(FAILURES).nullable(),
  waitsFor: z.bigint().nullable(),
  attempts: z.int(),
  firstAttemptAt: z.date().nullable(),
  leasedUntil: z.date().nullable(),
  retryAt: z.date().nullable(),
  mayBeDelivered: z.boolean(),
  askingSince: z.date().nullable(),
  lastError: z.string().nullable(),
  isLate: z.boolean(),
  documentKind: z.enum(DOCUMENT_KINDS).nullable(),
  documentReference: z.string().nullable(),
  sealedAt: z.date(),
  settledAt: z.date().nullable(),
});

export type StoredMeterEvent = Readonly<z.output<typeof meterEventRow>>;

export const meterEventColumns = sql.fragment`
  meter_event.id,
  meter_event.account_id AS "accountId",
  meter_event.mode,
  meter_event.kind,
  meter_event.second,
  meter_event.quantity,
  meter_event.generation,
  meter_event.identifier,
  meter_event.processor,
  meter_event.customer_id AS "customerId",
  meter_event.key_generation AS "keyGeneration",
  meter_event.state,
  meter_event.failure,
  meter_event.waits_for AS "waitsFor",
  meter_event.attempts,
  meter_event.first_attempt_at AS "firstAttemptAt",
  meter_event.leased_until AS "leasedUntil",
  meter_event.retry_at AS "retryAt",
  meter_event.may_be_delivered AS "mayBeDelivered",
  meter_event.asking_since AS "askingSince",
  meter_event.last_error AS "lastError",
  meter_event.is_late AS "isLate",
  meter_event.document_kind AS "documentKind",
  meter_event.document_reference AS "documentReference",
  meter_event.sealed_at AS "sealedAt",
  meter_event.settled_at AS "settledAt"
`;

/** The condition of late usage that no document bills. */
export const isLateWithoutDocument = sql.fragment`
  meter_event.is_late AND meter_event.document_reference IS NULL
`;

/** Lists the meter events that exist among those with these ids. */
export const listMeterEventsById = (
  db: CommonQueryMethods,
  ids: readonly bigint[],
): Promise<readonly StoredMeterEvent[]> =>
  db.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE id = ANY(${sql.array([...ids], "int8")})
  `);

export const findMeterEvent = async (
  db: CommonQueryMethods,
  id: bigint,
): Promise<StoredMeterEvent | null> => (await listMeterEventsById(db, [id]))[0] ?? null;

/** Locks meter events until the transaction ends, and returns them in the order of their ids. */
export const lockMeterEvents = (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
): Promise<readonly StoredMeterEvent[]> =>
  transaction.any(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE id = ANY(${sql.array([...ids], "int8")})
    ORDER BY id
    FOR NO KEY UPDATE
  `);

/**
 * Returns the event of the usage that a refund takes back: the first one that the processor does not have, or else the first one;
 * null for an event without refunds.
 */
export const findRefundedUsage = (
  db: CommonQueryMethods,
  refundEventId: bigint,
): Promise<StoredMeterEvent | null> =>
  db.maybeOne(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM usage_fact AS fact
    CROSS JOIN LATERAL (
      SELECT meter_event_id
      FROM usage_fact AS original
      WHERE ${shareRegistrations("original", "fact")} AND original.refund_id IS NULL
      OFFSET 0
    ) AS original
    JOIN meter_event ON meter_event.id = original.meter_event_id
    WHERE fact.meter_event_id = ${refundEventId} AND fact.refund_id IS NOT NULL AND meter_event.id <> ${refundEventId}
    ORDER BY meter_event.state = 'delivered', meter_event.id
    LIMIT 1
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

/** How usage is delivered that no attempt was seen to deliver. */
export type FoundDelivery = {
  readonly id: bigint;
  /** The customer that has it. */
  readonly customerId: string | null;
  readonly isLate: boolean;
  /** How this was found out. */
  readonly note: string;
  readonly now: Date;
};

/**
 * Records that the processor has an event. The time at which it was settled stays: its units are in the sums already, so
 * checks of the minute's other events need not wait again.
 */
export const recordFoundDelivery = async (
  transaction: DatabaseTransactionConnection,
  { id, customerId, isLate, note, now }: FoundDelivery,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = 'delivered',
      failure = NULL,
      waits_for = NULL,
      customer_id = ${customerId},
      is_late = ${isLate},
      may_be_delivered = false,
      leased_until = NULL,
      retry_at = NULL,
      last_error = ${note},
      settled_at = coalesce(settled_at, asking_since, ${timestamp(now)}),
      asking_since = NULL
    WHERE id = ${id}
  `);
};

/**
 * Lets the sender send an event that the processor does not have, under an identifier that was never used: a late attempt
 * under an earlier one could count beside it.
 */
export const sendAgain = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  { processor, customerId }: BillingTarget,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = 'pending',
      failure = NULL,
      waits_for = NULL,
      processor = ${processor},
      customer_id = ${customerId},
      generation = generation + 1,
      identifier = split_part(identifier, '.', 1) || '.' || (generation + 1),
      key_generation = 0,
      attempts = 0,
      first_attempt_at = NULL,
      leased_until = NULL,
      retry_at = NULL,
      may_be_delivered = false,
      asking_since = NULL,
      is_late = false,
      settled_at = NULL
    WHERE id = ${id}
  `);
};

/**
 * Lets the sender ask whether the processor has a failed event, and send it if not. Nothing is sent under its identifier any
 * more, so the sums need to show only what was sent until it was settled.
 */
export const askAgain = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = 'pending',
      failure = NULL,
      waits_for = NULL,
      asking_since = coalesce(settled_at, sealed_at),
      leased_until = NULL,
      retry_at = NULL,
      settled_at = NULL
    WHERE id = ${id}
  `);
};

export type RecordedFailure = {
  readonly id: bigint;
  readonly failure: Exclude<Failure, "waits_for_usage">;
  readonly mayBeDelivered: boolean;
  readonly reason: string;
  readonly now: Date;
};

export const recordFailure = async (
  transaction: DatabaseTransactionConnection,
  { id, failure, mayBeDelivered, reason, now }: RecordedFailure,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = 'failed',
      failure = ${failure},
      waits_for = NULL,
      may_be_delivered = ${mayBeDelivered},
      leased_until = NULL,
      retry_at = NULL,
      asking_since = NULL,
      is_late = false,
      last_error = ${reason},
      settled_at = ${timestamp(now)}
    WHERE id = ${id}
  `);
};

/** Keeps a refund from being sent until the processor has the usage that it takes back. */
export const letWait = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  { waitsFor, mayBeDelivered }: { readonly waitsFor: bigint; readonly mayBeDelivered: boolean },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = 'failed',
      failure = 'waits_for_usage',
      waits_for = ${waitsFor},
      may_be_delivered = ${mayBeDelivered},
      leased_until = NULL,
      retry_at = NULL,
      asking_since = NULL
    WHERE id = ${id}
  `);
};

/**
 * Lets refunds be sent whose usage has been delivered meanwhile, to the processor and customer that have it. About those that
 * may have been sent in a lost history, the processor is asked first.
 */
export const releaseRefunds = async (
  db: CommonQueryMethods,
  usageIds: readonly bigint[],
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = 'pending',
      failure = NULL,
      waits_for = NULL,
      processor = usage.processor,
      customer_id = usage.customer_id,
      asking_since = CASE WHEN meter_event.may_be_delivered THEN meter_event.sealed_at END,
      settled_at = NULL
    FROM meter_event AS usage
    WHERE meter_event.waits_for = usage.id
      AND usage.id = ANY(${sql.array([...usageIds], "int8")})
      AND usage.state = 'delivered'
  `);
};

/** Closes events: they are never sent, or a document bills them. Late ones were delivered and stay so. */
export const closeEvents = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
  {
    document,
    note,
    now,
  }: {
    readonly document: BillingDocument | null;
    readonly note: string;
    readonly now: Date;
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = CASE WHEN state = 'failed' THEN 'closed' ELSE state END,
      failure = NULL,
      waits_for = NULL,
      may_be_delivered = false,
      is_late = is_late AND ${document !== null},
      document_kind = ${document?.kind ?? null},
      document_reference = ${document?.reference ?? null},
      last_error = ${note},
      settled_at = CASE WHEN state = 'failed' THEN ${timestamp(now)} ELSE settled_at END
    WHERE id = ANY(${sql.array([...ids], "int8")})
  `);
};

/** Closes the refunds that wait for usage which is never billed: the processor has nothing to take back. */
export const closeRefundsOf = async (
  transaction: DatabaseTransactionConnection,
  usageIds: readonly bigint[],
  { note, now }: { readonly note: string; readonly now: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = 'closed',
      failure = NULL,
      waits_for = NULL,
      may_be_delivered = false,
      last_error = ${note},
      settled_at = ${timestamp(now)}
    WHERE waits_for = ANY(${sql.array([...usageIds], "int8")})
  `);
};

/**
 * Records that the processor refuses an event that it had accepted. When it was settled stays: the sums have shown it since then,
 * or its refusal.
 */
export const recordLateRefusal = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  { state, note }: { readonly state: "failed" | "closed"; readonly note: string },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET
      state = ${state},
      failure = CASE WHEN ${state === "failed"} THEN 'refused' END,
      may_be_delivered = ${state === "failed"},
      is_late = false,
      last_error = ${note}
    WHERE id = ${id}
  `);
};

/**
 * Records that usage which is not delivered may have been sent in a history that was lost, until a time. The senders ask about
 * what is pending before they send it. About what has failed, a retry asks.
 */
export const askAboutUnsent = async (
  transaction: DatabaseTransactionConnection,
  until: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    WITH unsent AS (
      SELECT id
      FROM meter_event
      WHERE state IN ('pending', 'failed') AND processor = 'stripe'
      -- Other statements lock rows in this order, too.
      ORDER BY id
      FOR NO KEY UPDATE
    )
    UPDATE meter_event
    SET
      may_be_delivered = true,
      asking_since = CASE WHEN state = 'pending' THEN greatest(asking_since, ${timestamp(until)}) END,
      settled_at = CASE WHEN state = 'failed' THEN greatest(settled_at, ${timestamp(until)}) END,
      leased_until = NULL,
      retry_at = NULL
    FROM unsent
    WHERE meter_event.id = unsent.id
  `);
};

const askedRow = z.strictObject({ events: safeInteger });

/** Counts the events about which the processor is asked before they are sent. */
export const countAskedEvents = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.type(askedRow)`
    SELECT count(*) AS events FROM meter_event WHERE state = 'pending' AND asking_since IS NOT NULL
  `);
