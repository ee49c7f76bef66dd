import type { DatabasePool } from "slonik";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { lockStream } from "../streams.sql.ts";
import { beginAttempts, renewLease, settleAttempts } from "./attempts.sql.ts";
import { releaseFacts } from "../usageFacts.sql.ts";
import {
  asLate,
  decideNextStep,
  LEASED,
  withJitter,
  withoutProcessor,
} from "./decideNextStep.rules.ts";
import type { AttemptOutcome, SendResult, Settlement } from "./decideNextStep.rules.ts";
import { isFailed } from "../meterEvents.rules.ts";
import type { BillingProcessor } from "../processor.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import type { BillingContext } from "../context.ts";
import { isLeaseOver, leaseOf, startLease } from "./attemptLease.ts";
import type { LeaseStart } from "./attemptLease.ts";
import { checkDelivery } from "./checkDelivery.ts";
import type { AttemptRecords } from "./createAttemptRecords.ts";
import { listTraceParents } from "./traceContexts.sql.ts";

/** A busy account has thousands of registrations in an event. */
const MAXIMUM_LINKS = 32;

/**
 * Records a span for the sending of a meter event, if tracing is on. The event of one request belongs to the request's
 * trace. The event of several has a separate trace with links to them.
 */
const traceSending = async <Result>(
  { db, tracing }: BillingContext,
  meterEventId: bigint,
  send: () => Promise<Result>,
): Promise<Result> => {
  if (tracing === undefined) {
    return send();
  }
  const requests = await listTraceParents(db, meterEventId, MAXIMUM_LINKS).catch(
    (error: unknown) => {
      // Billing does not depend on traces.
      tracing.reportLoss(error);
      return [];
    },
  );
  const [only] = requests;
  return tracing.run(
    "send usage",
    {
      parent: requests.length === 1 ? (only ?? null) : null,
      links: requests.length === 1 ? [] : requests,
      attributes: { "impact.meter_event.id": String(meterEventId) },
    },
    send,
  );
};

const callProcessor = (
  processor: BillingProcessor,
  event: StoredMeterEvent,
  signal: AbortSignal,
  mayCall: () => boolean,
): Promise<AttemptOutcome> =>
  processor.send(
    {
      identifier: event.identifier,
      customer: { accountId: event.accountId, customerId: event.customerId },
      kind: event.kind,
      quantity: event.quantity,
      second: event.second,
      keyGeneration: event.keyGeneration,
    },
    signal,
    mayCall,
  );

const traceCall = <Result>(
  { tracing }: BillingContext,
  { processor }: StoredMeterEvent,
  call: () => Promise<Result>,
): Promise<Result> =>
  tracing === undefined
    ? call()
    : tracing.run(
        `call ${processor}`,
        { kind: "client", attributes: { "impact.processor": processor } },
        call,
      );

/**
 * Checks and sends as the rules decide, until they end the attempt.
 * @returns null if the lease was lost: another attempt has begun
 */
const makeAttempt = async (
  context: BillingContext,
  event: StoredMeterEvent,
  { started, signal }: { readonly started: LeaseStart; readonly signal: AbortSignal },
): Promise<SendResult | null> => {
  const { db, billing } = context;
  const { at: startedAt } = started;
  const processor = billing.findProcessor(event.processor, event.mode);
  if (!processor) {
    return withoutProcessor(event);
  }
  let outcome: AttemptOutcome | null = null;
  let lease = started;
  for (;;) {
    const step = decideNextStep(event, outcome, startedAt);
    switch (step.kind) {
      case "send":
        outcome = await traceCall(context, event, () =>
          callProcessor(processor, event, signal, () => !isLeaseOver(lease, context)),
        );
        break;
      case "check":
        ({ outcome } = await checkDelivery(processor, db, event, { now: startedAt, signal }));
        // The check took time, and the lease must outlast the attempt.
        if (outcome.kind === "absent") {
          lease = startLease(context);
          if (!(await renewLease(db, event, leaseOf(lease).until))) {
            return null;
          }
        }
        break;
      case "delayed":
      case "settled":
        return step;
    }
  }
};

/** Most usage is delivered within seconds, and no subscription begins in between. */
const CHECKED_AGE_MS = 60_000;

/** Marks a delivery as late if the billing period had ended, and so had the time in which Stripe adds to its invoice. */
const markIfLate = async (
  records: AttemptRecords,
  { id, second }: StoredMeterEvent,
  settlement: Settlement,
  now: Date,
): Promise<Settlement> => {
  const isLate =
    settlement.state === "delivered" &&
    now.getTime() - second * 1000 > CHECKED_AGE_MS &&
    (await records.isLate({ id, now }));
  return isLate ? asLate(settlement) : settlement;
};

/** Records the settlement, and the failure as an event. Facts that it does not settle are released in the same transaction. */
const settle = async (
  db: DatabasePool,
  records: AttemptRecords,
  event: StoredMeterEvent,
  settlement: Settlement,
  settledAt: Date,
): Promise<void> => {
  const { id, attempts } = event;
  const { state, reason, acceptedQuantity } = settlement;
  const settled = { id, attempts, state, reason, acceptedQuantity, settledAt };
  const releases = state === "superseded" || acceptedQuantity !== null;
  if (!releases && !isFailed(state)) {
    await records.settle(settled);
    return;
  }
  await db.transaction(async (transaction) => {
    if (releases) {
      await lockStream(transaction, event);
    }
    if (!(await settleAttempts(transaction, [settled])).has(id)) {
      return;
    }
    await recordUsageEvent(transaction, event, state, settledAt);
    if (releases) {
      await releaseFacts(transaction, id, acceptedQuantity ?? 0);
    }
  });
};

export type BegunAttempts = {
  readonly started: LeaseStart;
  readonly events: readonly StoredMeterEvent[];
};

/** Leases sealed events to attempts, and records those before they are made. */
export const beginSending = async (
  context: BillingContext,
  ids: readonly bigint[],
): Promise<BegunAttempts> => {
  const started = startLease(context);
  return { started, events: await beginAttempts(context.db, ids, leaseOf(started)) };
};

export const finishSending = async (
  context: BillingContext & { readonly records: AttemptRecords },
  event: StoredMeterEvent,
  {
    started,
    signal,
  }: {
    readonly started: LeaseStart;
    readonly signal: AbortSignal;
  },
): Promise<SendResult> => {
  const { db, clock, records } = context;
  const result = await traceSending(context, event.id, () =>
    makeAttempt(context, event, { started, signal }),
  );
  if (!result) {
    return LEASED;
  }
  const now = clock.now();
  if (result.kind === "delayed") {
    const { reason, outcomeUnknown, newKey } = result;
    const delay = withJitter(result, Math.random());
    await records.delay({
      id: event.id,
      attempts: event.attempts,
      reason,
      outcomeUnknown,
      newKey,
      inDoubtSince: result.cause === "in_doubt" ? now : null,
      retryAt: new Date(now.getTime() + delay.afterMs),
    });
    return delay;
  }
  const settlement = await markIfLate(records, event, result, now);
  await settle(db, records, event, settlement, now);
  return settlement;
};
