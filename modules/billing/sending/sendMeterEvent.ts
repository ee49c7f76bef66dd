import type { DatabasePool } from "slonik";
import { releaseRefunds } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { lockStream } from "../streams.sql.ts";
import { beginAttempts, settleAttempts, unseal } from "./attempts.sql.ts";
import {
  asLate,
  decideNextStep,
  LEASED,
  withJitter,
  withoutProcessor,
} from "./decideNextStep.rules.ts";
import type { AttemptOutcome, SendResult, Settlement } from "./decideNextStep.rules.ts";
import type { BillingProcessor } from "../processor.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import type { BillingContext } from "../context.ts";
import { askAboutEvent } from "../reconciliation/askProcessor.ts";
import { isLeaseOver, leaseOf, startLease } from "./attemptLease.ts";
import type { LeaseStart } from "./attemptLease.ts";
import type { AttemptRecords } from "./createAttemptRecords.ts";

/** Records a span for the sending of a meter event, if tracing is on. */
const traceSending = <Result>(
  { tracing }: BillingContext,
  meterEventId: bigint,
  send: () => Promise<Result>,
): Promise<Result> =>
  tracing === undefined
    ? send()
    : tracing.run(
        "send usage",
        { parent: null, attributes: { "impact.meter_event.id": String(meterEventId) } },
        send,
      );

const callStripe = (
  stripe: BillingProcessor,
  event: StoredMeterEvent,
  signal: AbortSignal,
  mayCall: () => boolean,
): Promise<AttemptOutcome> =>
  stripe.send(
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
  call: () => Promise<Result>,
): Promise<Result> =>
  tracing === undefined
    ? call()
    : tracing.run(
        "call stripe",
        { kind: "client", attributes: { "impact.processor": "stripe" } },
        call,
      );

/** Makes the attempt as the rules decide. Whatever the processor's sums decide is recorded here. */
const makeAttempt = async (
  context: BillingContext,
  event: StoredMeterEvent,
  { started, signal }: { readonly started: LeaseStart; readonly signal: AbortSignal },
): Promise<SendResult> => {
  const { db } = context;
  const { stripe } = context.billing;
  if (stripe === null) {
    return withoutProcessor(event);
  }
  let outcome: AttemptOutcome | null = null;
  for (;;) {
    const step = decideNextStep(event, outcome, started.at);
    switch (step.kind) {
      case "send":
        outcome = await traceCall(context, () =>
          callStripe(stripe, event, signal, () => !isLeaseOver(started, context)),
        );
        break;
      case "ask":
        return askAboutEvent(context, event, signal);
      case "unseal":
        await db.transaction(async (transaction) => {
          await lockStream(transaction, event);
          await unseal(transaction, event);
        });
        return LEASED;
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

/** Records the settlement, a failure as an event, and that refunds of usage that was sent again may be sent. */
const settle = async (
  db: DatabasePool,
  records: AttemptRecords,
  event: StoredMeterEvent,
  { state, failure, reason, isLate }: Settlement,
  settledAt: Date,
): Promise<void> => {
  const { id, attempts, generation } = event;
  const settled = { id, attempts, state, failure, reason, isLate, settledAt };
  if (state === "delivered" && generation === 0) {
    // Nothing waits for usage that has never failed.
    await records.settle(settled);
    return;
  }
  await db.transaction(async (transaction) => {
    if ((await settleAttempts(transaction, [settled])).has(id)) {
      await recordUsageEvent(transaction, event, state, settledAt);
      await releaseRefunds(transaction, [id]);
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
  const { id, attempts } = event;
  const result = await traceSending(context, id, () =>
    makeAttempt(context, event, { started, signal }),
  );
  const now = clock.now();
  if (result.kind === "delayed") {
    const { reason, outcomeUnknown, newKey } = result;
    const delay = withJitter(result, Math.random());
    await records.delay({
      id,
      attempts,
      reason,
      outcomeUnknown,
      newKey,
      askingSince: result.cause === "asking" ? now : null,
      retryAt: new Date(now.getTime() + delay.afterMs),
    });
    return delay;
  }
  const settlement = await markIfLate(records, event, result, now);
  await settle(db, records, event, settlement, now);
  return settlement;
};
