import type { ProcessorEventAttempt } from "./processorEvents.sql.ts";
import {
  beginProcessing,
  listDueProcessorEvents,
  recordProcessingError,
  settleProcessorEvent,
} from "./processorEvents.sql.ts";
import { listAccountsOfStripeObject } from "./stripeSubscriptions.sql.ts";
import { isGivenUp, isSubscriptionChange, processingDelayMs } from "./processorEvents.rules.ts";
import { ProcessorEventUnreadableError } from "../processor.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { applyRejectionReport } from "./applyRejectionReport.ts";
import type { RejectionObserver } from "./applyRejectionReport.ts";
import { refreshSubscription } from "./refreshSubscriptions.ts";

const PAGE = 100;
const CALL_TIMEOUT_MS = 20_000;

/** No event begins after this time, so that the dispatcher soon looks for other work again. */
const BUDGET_MS = 2000;

/** An event that will not be processed any more; an operator has to find out what it means. */
export type FailedProcessorEvent = {
  readonly id: string;
  readonly type: string;
  readonly reason: string;
};

export type ProcessorEventObservers = RejectionObserver & {
  readonly observeFailedEvent: (event: FailedProcessorEvent) => void;
};

const apply = async (
  context: BillingContext & ProcessorEventObservers,
  { id, type, objectId }: ProcessorEventAttempt,
  signal: AbortSignal,
): Promise<void> => {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(CALL_TIMEOUT_MS)]);
  if (isSubscriptionChange(type)) {
    // The event is only the reason to read the current state, so the order of events does not matter.
    for (const accountId of await listAccountsOfStripeObject(context.db, objectId ?? "")) {
      await refreshSubscription(context, accountId, limit);
    }
    return;
  }
  const stripe = requireStripe(context.billing);
  await applyRejectionReport(context, id, await stripe.readRejectionReport(id, limit));
};

const processOne = async (
  context: BillingContext & ProcessorEventObservers,
  event: ProcessorEventAttempt,
  signal: AbortSignal,
): Promise<void> => {
  const { db, clock } = context;
  const { id, type, receivedAt } = event;
  try {
    await apply(context, event, signal);
    await settleProcessorEvent(db, id, {
      state: "processed",
      error: null,
      settledAt: clock.now(),
    });
  } catch (error) {
    // A worker that stops says nothing about the event. Another attempt follows.
    signal.throwIfAborted();
    const reason = error instanceof Error ? error.message : String(error);
    if (!(error instanceof ProcessorEventUnreadableError) && !isGivenUp(receivedAt, clock.now())) {
      await recordProcessingError(db, id, reason);
      return;
    }
    await settleProcessorEvent(db, id, { state: "failed", error: reason, settledAt: clock.now() });
    context.observeFailedEvent({ id, type, reason });
  }
};

/**
 * Processes the due events of the processor once, as far as the time budget allows. Those that fail become due again
 * later; one that never succeeds is recorded as failed. Every effect is idempotent, so an attempt that dies does no harm.
 */
export const processProcessorEvents = async (
  context: BillingContext & ProcessorEventObservers,
  signal: AbortSignal,
): Promise<void> => {
  const { db, clock } = context;
  const startedAtMs = performance.now();
  for (const due of await listDueProcessorEvents(db, clock.now(), PAGE)) {
    signal.throwIfAborted();
    if (performance.now() - startedAtMs > BUDGET_MS) {
      return;
    }
    const nextAttemptAt = new Date(clock.now().getTime() + processingDelayMs(due.attempts + 1));
    const event = await beginProcessing(db, due, nextAttemptAt);
    if (event) {
      await processOne(context, event, signal);
    }
  }
};
