import type { DatabasePool } from "slonik";
import { listMeterEventIdsOfEndedPeriods } from "../../../db/billing/meterEventReports.ts";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import {
  beginAttempt,
  lockStream,
  recordDelay,
  renewLease,
  settleAttempt,
} from "../../../db/billing/meterEvents.ts";
import { releaseFacts } from "../../../db/billing/usageFacts.ts";
import {
  asLate,
  decideNextStep,
  LEASE_MS,
  LEASED,
  withJitter,
  withoutProcessor,
} from "../../../domain/billing/decideNextStep.ts";
import type {
  AttemptOutcome,
  SendResult,
  Settlement,
} from "../../../domain/billing/decideNextStep.ts";
import { DEFAULT_GRACE_MS, isFailed } from "../../../domain/billing/meterEvents.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import type { BillingProcessor } from "../../../providers/billing/processor.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { checkDelivery } from "./checkDelivery.ts";

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
  /** Milliseconds of the monotonic clock. */
  readonly monotonicMs?: () => number;
};

/** When an attempt's lease began, by two clocks: setting one moves it, and the other may stop with the machine. */
type LeaseStart = { readonly at: Date; readonly monotonicMs: number };

const startLease = ({
  clock,
  monotonicMs = () => performance.now(),
}: Dependencies): LeaseStart => ({
  at: clock.now(),
  monotonicMs: monotonicMs(),
});

const isLeaseOver = (start: LeaseStart, deps: Dependencies): boolean => {
  const now = startLease(deps);
  const elapsedMs = Math.max(
    now.at.getTime() - start.at.getTime(),
    now.monotonicMs - start.monotonicMs,
  );
  return elapsedMs >= LEASE_MS;
};

const leaseFrom = (now: Date): Date => new Date(now.getTime() + LEASE_MS);

const callProcessor = (
  processor: BillingProcessor,
  event: StoredMeterEvent,
  signal: AbortSignal,
  mayCall: () => boolean,
): Promise<AttemptOutcome> =>
  processor.send(
    {
      identifier: event.identifier,
      customer: { accountId: event.accountId, customerId: event.customerId, subscriptionId: null },
      meter: event.meter,
      quantity: event.quantity,
      second: event.second,
      keyGeneration: event.keyGeneration,
    },
    signal,
    mayCall,
  );

/**
 * Checks and sends as the rules decide, until they end the attempt.
 * @returns null if the lease was lost: another attempt has begun
 */
const makeAttempt = async (
  deps: Dependencies,
  event: StoredMeterEvent,
  { started, signal }: { readonly started: LeaseStart; readonly signal: AbortSignal },
): Promise<SendResult | null> => {
  const { db, billing } = deps;
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
        outcome = await callProcessor(processor, event, signal, () => !isLeaseOver(lease, deps));
        break;
      case "check":
        ({ outcome } = await checkDelivery(processor, db, event, { now: startedAt, signal }));
        // The check took time, and the lease must outlast the attempt.
        if (outcome.kind === "absent") {
          lease = startLease(deps);
          if (!(await renewLease(db, event, leaseFrom(lease.at)))) {
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

/** Marks a delivery as late if the billing period had ended, and so had the time in which Stripe adds to its invoice. */
const markIfLate = async (
  db: DatabasePool,
  { id, second }: StoredMeterEvent,
  settlement: Settlement,
  now: Date,
): Promise<Settlement> => {
  const graceStart = new Date(now.getTime() - DEFAULT_GRACE_MS);
  const isLate =
    settlement.state === "delivered" &&
    // The period of later usage cannot have ended by then, which saves a query.
    second * 1000 < graceStart.getTime() &&
    (await listMeterEventIdsOfEndedPeriods(db, [id], graceStart)).length > 0;
  return isLate ? asLate(settlement) : settlement;
};

/** Records the settlement, and the failure as an event. Facts that it does not settle are released in the same transaction. */
const settle = async (
  db: DatabasePool,
  event: StoredMeterEvent,
  settlement: Settlement,
  settledAt: Date,
): Promise<void> => {
  const { state, acceptedQuantity } = settlement;
  const releases = state === "superseded" || acceptedQuantity !== null;
  if (!releases && !isFailed(state)) {
    await settleAttempt(db, event, { ...settlement, settledAt });
    return;
  }
  await db.transaction(async (transaction) => {
    if (releases) {
      await lockStream(transaction, event);
    }
    if (!(await settleAttempt(transaction, event, { ...settlement, settledAt }))) {
      return;
    }
    await recordUsageEvent(transaction, event, state, settledAt);
    if (releases) {
      await releaseFacts(transaction, event.id, acceptedQuantity ?? 0);
    }
  });
};

/** Makes one attempt to send a sealed event. The attempt is recorded before the call, and its outcome after it. */
export const sendMeterEvent = async (
  deps: Dependencies,
  id: bigint,
  signal: AbortSignal,
): Promise<SendResult> => {
  const { db, clock } = deps;
  const started = startLease(deps);
  const event = await beginAttempt(db, id, { now: started.at, until: leaseFrom(started.at) });
  const result = event && (await makeAttempt(deps, event, { started, signal }));
  if (!result) {
    return LEASED;
  }
  if (result.kind === "delayed") {
    const inDoubtSince = result.cause === "in_doubt" ? clock.now() : null;
    await recordDelay(db, event, { ...result, inDoubtSince });
    return withJitter(result, Math.random());
  }
  const settledAt = clock.now();
  const settlement = await markIfLate(db, event, result, settledAt);
  await settle(db, event, settlement, settledAt);
  return settlement;
};
