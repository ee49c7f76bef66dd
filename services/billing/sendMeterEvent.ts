import type { DatabasePool } from "slonik";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import { listMeterEventIdsOfEndedPeriods } from "../../db/billing/meterEventReports.ts";
import {
  beginAttempt,
  recordDelay,
  renewLease,
  settleAttempt,
} from "../../db/billing/meterEvents.ts";
import type { Clock } from "../../domain/clock.ts";
import type { FailedState } from "../../domain/billing/usage.ts";
import { decideSend, DELIVERED_LATE, USUAL_GRACE_MS } from "../../domain/billing/usage.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { ACCEPTED_AGE_MS } from "../../providers/billing/processor.ts";
import type { BillingProcessor } from "../../providers/billing/processor.ts";
import { checkDelivery } from "./checkDelivery.ts";

/** What one attempt led to: the event's final state, or when to come back (null: the caller's own backoff). */
export type SendResult =
  | {
      readonly kind: "settled";
      readonly state: "delivered" | FailedState;
      /** Delivered when the invoice of its billing period may have been finalized. */
      readonly isLate: boolean;
    }
  | {
      readonly kind: "delayed";
      readonly cause: "retry" | "misconfigured" | "leased" | "early";
      readonly reason: string;
      readonly afterMs: number | null;
    };

/** Whether an attempt has ended in what only a person can mend. */
export const needsAttention = (result: SendResult): boolean =>
  result.kind === "delayed"
    ? result.cause === "misconfigured"
    : result.state !== "delivered" || result.isLate;

type Verdict =
  | { readonly state: "delivered" | FailedState; readonly reason?: string }
  | {
      readonly state: "sending";
      readonly cause: "retry" | "misconfigured" | "early";
      readonly reason: string;
      readonly afterMs?: number;
      readonly outcomeUnknown?: boolean;
      readonly newKey?: boolean;
    };

/** Longer than any attempt can take: the processor's client gives up after 10 seconds. */
const LEASE_MS = 15_000;

const leaseFrom = (now: Date): Date => new Date(now.getTime() + LEASE_MS);

/** Only a person can mend credentials; asking more often helps nobody. */
export const MISCONFIGURED_PAUSE_MS = 5 * 60 * 1000;

const EARLY_PAUSE_MS = 60 * 1000;

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

const attempt = async (
  processor: BillingProcessor,
  event: StoredMeterEvent,
  signal: AbortSignal,
): Promise<Verdict> => {
  const outcome = await processor.send(
    {
      identifier: event.identifier,
      customer: { accountId: event.accountId, customerId: event.customerId, subscriptionId: null },
      meter: event.meter,
      quantity: event.quantity,
      second: event.second,
      keyGeneration: event.keyGeneration,
    },
    signal,
  );
  switch (outcome.kind) {
    case "delivered":
      return { state: "delivered" };
    case "retry":
      return { state: "sending", cause: "retry", ...outcome };
    case "retry_new_key":
      // The usage may have been taken before the 500 was saved; the identifier tells, whatever the key.
      return {
        state: "sending",
        cause: "retry",
        reason: outcome.reason,
        newKey: true,
        outcomeUnknown: true,
      };
    case "rejected":
      // Had an earlier attempt been accepted, sending the usage anew would bill it twice: that must be known first.
      return { state: event.outcomeUnknown ? "blocked" : "rejected", reason: outcome.reason };
    case "misconfigured":
      return {
        state: "sending",
        cause: "misconfigured",
        reason: outcome.reason,
        afterMs: MISCONFIGURED_PAUSE_MS,
      };
  }
};

/** @returns null when another attempt has taken over meanwhile */
const judge = async (
  deps: Dependencies,
  event: StoredMeterEvent,
  signal: AbortSignal,
): Promise<Verdict | null> => {
  const processor = deps.billing.findProcessor(event.processor, event.mode);
  if (!processor) {
    return {
      state: event.outcomeUnknown ? "blocked" : "rejected",
      reason: `the event was sealed for ${event.processor}, which is not set up`,
    };
  }
  const now = deps.clock.now();
  const acceptedAgeMs = ACCEPTED_AGE_MS[event.processor];
  let decision = decideSend(event, acceptedAgeMs, now);
  if (decision === "reconcile") {
    const delivery = await checkDelivery(processor, deps.db, event, { now, signal });
    switch (delivery.kind) {
      case "delivered":
        return { state: "delivered" };
      case "unclear":
        return { state: "blocked", reason: delivery.reason };
      case "early":
        return { state: "sending", cause: "early", ...delivery };
      case "absent":
        decision = decideSend({ ...event, outcomeUnknown: false }, acceptedAgeMs, now);
        // Asking took its time, and the lease must outlast the attempt.
        if (!(await renewLease(deps.db, event, leaseFrom(deps.clock.now())))) {
          return null;
        }
    }
  }
  if (decision === "expire") {
    return { state: "expired", reason: "older than the processor accepts" };
  }
  if (decision === "wait") {
    return {
      state: "sending",
      cause: "early",
      reason: "ahead of the processor's clock",
      afterMs: EARLY_PAUSE_MS,
    };
  }
  return attempt(processor, event, signal);
};

const isDeliveredLate = async (
  db: DatabasePool,
  { id, second }: StoredMeterEvent,
  now: Date,
): Promise<boolean> => {
  const graceStart = new Date(now.getTime() - USUAL_GRACE_MS);
  // What is that young is of no period that was over by then: nothing has to be read.
  return (
    second * 1000 < graceStart.getTime() &&
    (await listMeterEventIdsOfEndedPeriods(db, [id], graceStart)).length > 0
  );
};

/** Makes one attempt to send a sealed event. Each step is on record before and after the call. */
export const sendMeterEvent = async (
  deps: Dependencies,
  id: bigint,
  signal: AbortSignal,
): Promise<SendResult> => {
  const { db, clock } = deps;
  const now = clock.now();
  const event = await beginAttempt(db, id, { now, until: leaseFrom(now) });
  const verdict = event && (await judge(deps, event, signal));
  if (!verdict) {
    return {
      kind: "delayed",
      cause: "leased",
      reason: "another attempt may be under way",
      afterMs: LEASE_MS,
    };
  }
  if (verdict.state === "sending") {
    const { cause, reason, afterMs = null, outcomeUnknown = false, newKey = false } = verdict;
    await recordDelay(db, event, { reason, outcomeUnknown, newKey });
    return { kind: "delayed", cause, reason, afterMs };
  }
  const { state } = verdict;
  const settledAt = clock.now();
  const isLate = state === "delivered" && (await isDeliveredLate(db, event, settledAt));
  const reason = isLate ? DELIVERED_LATE : (verdict.reason ?? null);
  await settleAttempt(db, event, { state, reason, settledAt });
  return { kind: "settled", state, isLate };
};
