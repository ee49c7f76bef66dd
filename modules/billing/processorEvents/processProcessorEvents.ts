import type { Context } from "../../../runtime/context.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import {
  recordLateRefusal,
  lockMeterEvents,
  listMeterEventsByIdentifier,
} from "../meterEvents.sql.ts";
import { namesOf } from "../meterEvents.rules.ts";
import { ProcessorEventUnreadableError } from "../processor.ts";
import type { CheckoutSession } from "../stripe/checkouts.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { lockStreams } from "../streams.sql.ts";
import {
  beginProcessing,
  deleteProcessorEvent,
  insertProcessorEvent,
} from "./processorEvents.sql.ts";
import type { StoredProcessorEvent } from "./processorEvents.sql.ts";
import { decideLateRefusal, isGivenUp, subjectOf } from "./processorEvents.rules.ts";
import type { ProcessorEvent, RefusalReport } from "./processorEvents.rules.ts";
import { refreshSubscription } from "./readSubscription.ts";
import { listAccountsOfStripe } from "./stripeSubscriptions.sql.ts";

/** Stores an event that a webhook has announced, for a worker to process; `ignored` if nothing depends on events of its type. */
export const receiveProcessorEvent = async (
  { db, clock }: Context,
  event: ProcessorEvent,
): Promise<"stored" | "ignored"> => {
  if (subjectOf(event.type) === null) {
    return "ignored";
  }
  await insertProcessorEvent(db, event, clock.now());
  return "stored";
};

/**
 * Applies a report of usage that the processor refused after it had accepted it: the delivered meter events that its
 * samples name become failed ones, or closed ones if a document bills them. A retry asks the processor first: what it lacks
 * may have been sent again already, under another identifier. Samples of other programs are skipped.
 * @throws Error if a named meter event is still being sent; nothing is changed then
 */
export const applyRefusalReport = async (
  { db, clock }: Context,
  processorEventId: string,
  { windowEnd, reasons }: RefusalReport,
): Promise<void> => {
  await db.transaction(async (transaction) => {
    if (!(await deleteProcessorEvent(transaction, processorEventId))) {
      // Another process has applied it.
      return;
    }
    const named = await listMeterEventsByIdentifier(transaction, [...reasons.keys()]);
    await lockStreams(transaction, named);
    const ids = named.map(({ id }) => id);
    // They may have been delivered, or sent again under other identifiers, since they were listed.
    const decided = (await lockMeterEvents(transaction, ids)).flatMap((event) => {
      const reason = reasons.get(event.identifier);
      const decision = decideLateRefusal(event, windowEnd);
      return reason === undefined ? [] : [{ event, decision, reason }];
    });
    const waiting = decided.filter(({ decision }) => decision === "wait");
    if (waiting.length > 0) {
      throw new Error(
        `These refused meter events are still being sent: ${namesOf(waiting.map(({ event }) => event))}.`,
      );
    }
    const now = await readDatabaseTime(transaction, clock);
    for (const { event, decision, reason } of decided) {
      if (decision === "failed" || decision === "closed") {
        const deliveredAt = event.settledAt?.toISOString() ?? "an unknown time";
        const note = `refused after it was delivered at ${deliveredAt}: ${reason}`;
        await recordLateRefusal(transaction, event.id, { state: decision, note });
        await recordUsageEvent(transaction, event, decision, now);
      }
    }
  });
};

/** No event begins after this time, so that the dispatcher soon looks for other work again. */
const BUDGET_MS = 2000;

export type FailedProcessorEvent = Pick<ProcessorEvent, "id" | "type"> & {
  readonly reason: string;
};

export type ProcessorEventObservers = {
  /** Called when an event is given up. The comparisons of each night find what it meant. */
  readonly observeFailedEvent: (event: FailedProcessorEvent) => void;
  /** Called when an event will be tried again. */
  readonly observeDelayedEvent: (event: FailedProcessorEvent) => void;
};

type EventContext = BillingContext &
  ProcessorEventObservers & {
    /** Credits what was paid, once. Called with sessions of all programs that use the Stripe account, paid or not. */
    readonly creditCheckout: (session: CheckoutSession) => Promise<unknown>;
  };

const apply = async (
  context: EventContext,
  { id, type, objectId }: StoredProcessorEvent,
  signal: AbortSignal,
): Promise<void> => {
  const subject = subjectOf(type);
  if (subject === "subscription") {
    // The event is only the reason to read the current state, so the order of events does not matter.
    for (const accountId of await listAccountsOfStripe(context.db, [objectId ?? ""])) {
      await refreshSubscription(context, accountId, signal);
    }
    return;
  }
  const stripe = requireStripe(context.billing);
  await (subject === "payment"
    ? context.creditCheckout(await stripe.readCheckout(objectId ?? "", signal))
    : applyRefusalReport(context, id, await stripe.readRefusalReport(id, signal)));
};

/** Processes the due events of the processor once, as far as the time budget allows. Every effect is idempotent. */
export const processProcessorEvents = async (
  context: EventContext,
  signal: AbortSignal,
): Promise<void> => {
  const { db, clock } = context;
  const startedAtMs = performance.now();
  while (performance.now() - startedAtMs <= BUDGET_MS) {
    signal.throwIfAborted();
    const event = await beginProcessing(db, clock.now());
    if (event === null) {
      return;
    }
    const { id, type, receivedAt } = event;
    try {
      await apply(context, event, signal);
      await deleteProcessorEvent(db, id);
    } catch (error) {
      // A worker that stops says nothing about the event.
      signal.throwIfAborted();
      const failed = { id, type, reason: error instanceof Error ? error.message : String(error) };
      if (error instanceof ProcessorEventUnreadableError || isGivenUp(receivedAt, clock.now())) {
        context.observeFailedEvent(failed);
        await deleteProcessorEvent(db, id);
      } else {
        context.observeDelayedEvent(failed);
      }
    }
  }
};
