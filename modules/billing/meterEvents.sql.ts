import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { meterEventRow } from "./meterEvents.rules.ts";
import type { BillingDocument, StoredMeterEvent } from "./meterEvents.rules.ts";
import { assignments, columnsOf, identifiers, sql, timestamp } from "../../db/sql.ts";
import { refundedFacts } from "./registrationFacts.sql.ts";
import type { BillingTarget } from "./usage.rules.ts";

export const meterEventColumns = columnsOf("meter_event", meterEventRow);

/** The sequence number of a sealing of the query: it follows those of the second that are stored, and those before it. */
export const nextSequence = (sealing: string, order: string): FragmentSqlToken => {
  const second = identifiers(["account_id", "mode", "kind", "second"], sealing);
  return sql.fragment`
    (
      SELECT coalesce(max(sequence), 0)
      FROM meter_event AS sealed
      WHERE (sealed.account_id, sealed.mode, sealed.kind, sealed.second) = (${second})
    ) + row_number() OVER (PARTITION BY ${second} ORDER BY ${sql.identifier([sealing, order])})
  `;
};

export const identifierOfSealing = sql.fragment`concat_ws(':', 'u1', account_id, mode, kind, second, sequence)`;

export const selectMeterEvents = (condition: FragmentSqlToken, lock = sql.fragment``) =>
  sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM meter_event
    WHERE ${condition}
    ORDER BY id
    ${lock}
  `;

const isAmong = (ids: readonly bigint[]): FragmentSqlToken =>
  sql.fragment`id = ANY(${sql.array([...ids], "int8")})`;

export const listMeterEventsById = (db: CommonQueryMethods, ids: readonly bigint[]) =>
  db.any(selectMeterEvents(isAmong(ids)));

export const findMeterEvent = (db: CommonQueryMethods, id: bigint) =>
  db.maybeOne(selectMeterEvents(isAmong([id])));

/** Locks meter events until the transaction ends, and returns them in the order of their ids. */
export const lockMeterEvents = (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
): Promise<readonly StoredMeterEvent[]> =>
  transaction.any(selectMeterEvents(isAmong(ids), sql.fragment`FOR NO KEY UPDATE`));

/**
 * Locks the event of the usage that a refund takes back, so that its delivery is recorded before or after what is decided about the
 * refund, and returns it; of several, the first one that the processor does not have.
 */
export const lockRefundedUsage = (
  transaction: DatabaseTransactionConnection,
  refundEventId: bigint,
): Promise<StoredMeterEvent | null> =>
  transaction.maybeOne(sql.type(meterEventRow)`
    SELECT ${meterEventColumns}
    FROM usage_fact AS fact
    CROSS JOIN LATERAL ${refundedFacts} AS original
    JOIN meter_event ON meter_event.id = original.meter_event_id
    WHERE fact.meter_event_id = ${refundEventId} AND fact.refund_id IS NOT NULL AND meter_event.id <> ${refundEventId}
    ORDER BY meter_event.state = 'delivered', meter_event.id
    LIMIT 1
    FOR NO KEY UPDATE OF meter_event
  `);

/** Lists Stripe's events with these identifiers; unknown ones are left out. */
export const listMeterEventsByIdentifier = (db: CommonQueryMethods, names: readonly string[]) =>
  db.any(
    selectMeterEvents(sql.fragment`
      identifier = ANY(${sql.array([...names], "text")}) AND processor = 'stripe'
    `),
  );

/** What every decision about an event ends: its failure, and what the sender or the question waits for. */
const DECIDED = {
  failure: null,
  waits_for: null,
  leased_until: null,
  retry_at: null,
  asking_since: null,
};

const changeEvents = async (
  transaction: DatabaseTransactionConnection,
  condition: FragmentSqlToken,
  changes: Parameters<typeof assignments>[0],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET ${assignments({ ...DECIDED, ...changes })}
    WHERE ${condition}
  `);
};

/**
 * Records that the processor has an event. The time at which it was settled stays: its units are in the sums already, so
 * checks of the minute's other events need not wait again.
 */
export const recordFoundDelivery = (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  customerId: string | null,
  now: Date,
): Promise<void> =>
  changeEvents(transaction, isAmong([id]), {
    state: "delivered",
    customer_id: customerId,
    may_be_delivered: false,
    last_error: "the processor's sums show it",
    settled_at: sql.fragment`coalesce(settled_at, asking_since, ${timestamp(now)})`,
  });

/**
 * Lets the sender send an event that the processor does not have, under an identifier that was never used: a late attempt
 * under an earlier one could count beside it.
 */
export const sendAgain = (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  { processor, customerId }: BillingTarget,
): Promise<void> =>
  changeEvents(transaction, isAmong([id]), {
    state: "pending",
    processor,
    customer_id: customerId,
    generation: sql.fragment`generation + 1`,
    identifier: sql.fragment`split_part(identifier, '.', 1) || '.' || (generation + 1)`,
    key_generation: 0,
    attempts: 0,
    first_attempt_at: null,
    may_be_delivered: false,
    is_late: false,
    settled_at: null,
  });

/**
 * Lets the sender ask whether the processor has a failed event, and send it if not. Nothing is sent under its identifier any
 * more, so the sums need to show only what was sent until it was settled.
 */
export const askAgain = (transaction: DatabaseTransactionConnection, id: bigint): Promise<void> =>
  changeEvents(transaction, isAmong([id]), {
    state: "pending",
    asking_since: sql.fragment`coalesce(settled_at, sealed_at)`,
    settled_at: null,
  });

export const recordFailure = (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  failed: { readonly failure: "too_old" | "unclear"; readonly reason: string; readonly now: Date },
): Promise<void> =>
  changeEvents(transaction, isAmong([id]), {
    state: "failed",
    failure: failed.failure,
    may_be_delivered: failed.failure === "unclear",
    is_late: false,
    last_error: failed.reason,
    settled_at: timestamp(failed.now),
  });

/** Keeps a refund that the processor does not have from being sent until it has the usage that the refund takes back. */
export const letWait = (transaction: DatabaseTransactionConnection, id: bigint, usageId: bigint) =>
  changeEvents(transaction, isAmong([id]), {
    state: "failed",
    failure: "waits_for_usage",
    waits_for: usageId,
    may_be_delivered: false,
  });

/**
 * Lets refunds be sent whose usage has been delivered meanwhile, to where that is. About those that may have been sent in a
 * lost history, the processor is asked first.
 */
export const releaseRefunds = async (db: CommonQueryMethods, usageIds: readonly bigint[]) => {
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

/**
 * Closes events: they are never sent, or a document bills them. Late ones were delivered and stay so. Refunds that wait for
 * usage which is never billed are closed with it: the processor has nothing to take back.
 */
export const closeEvents = (
  transaction: DatabaseTransactionConnection,
  ids: readonly bigint[],
  by: { readonly document: BillingDocument | null; readonly note: string; readonly now: Date },
): Promise<void> =>
  changeEvents(
    transaction,
    by.document === null
      ? sql.fragment`(${isAmong(ids)} OR waits_for = ANY(${sql.array([...ids], "int8")}))`
      : isAmong(ids),
    {
      state: sql.fragment`CASE WHEN state = 'failed' THEN 'closed' ELSE state END`,
      may_be_delivered: false,
      is_late: false,
      document_kind: by.document?.kind ?? "none",
      document_reference: by.document?.reference ?? null,
      last_error: by.note,
      settled_at: sql.fragment`CASE WHEN state = 'failed' THEN ${timestamp(by.now)} ELSE settled_at END`,
    },
  );

/** Records that the processor refuses an event that it had accepted. Its time stays: the sums have shown the refusal since. */
export const recordLateRefusal = (
  transaction: DatabaseTransactionConnection,
  id: bigint,
  { state, note }: { readonly state: "failed" | "closed"; readonly note: string },
): Promise<void> =>
  changeEvents(transaction, isAmong([id]), {
    state,
    // What was never to be billed may now be sent again.
    ...(state === "failed" ? { failure: "refused", document_kind: null } : {}),
    may_be_delivered: state === "failed",
    is_late: false,
    last_error: note,
  });

/**
 * Records that usage which is not delivered may have been sent in a history that was lost, until a time. The senders ask about
 * what is pending, and a retry about what has failed.
 */
export const askAboutUnsent = async (transaction: DatabaseTransactionConnection, until: Date) => {
  await transaction.query(sql.typeAlias("void")`
    WITH unsent AS (
      SELECT id
      FROM meter_event
      WHERE state IN ('pending', 'failed') AND processor = 'stripe' AND failure IS DISTINCT FROM 'difference'
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
