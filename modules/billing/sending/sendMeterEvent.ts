import { SpanKind } from "@opentelemetry/api";
import { joinCalls } from "../../../db/batching/joinCalls.ts";
import { inSpan } from "../../../runtime/tracing.ts";
import type { BillingContext } from "../context.ts";
import { releaseRefunds } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.rules.ts";
import { askAboutEvent } from "../reconciliation/askProcessor.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";
import { CALL_TIMEOUT_MS } from "../usage.rules.ts";
import { recordOutcomes } from "./attempts.sql.ts";
import type { RecordedOutcome } from "./attempts.sql.ts";
import {
  decideNextStep,
  decideResult,
  LEASE_MS,
  misconfigured,
  STRIPE_MISSING,
} from "./decideNextStep.rules.ts";
import type { SendResult } from "./decideNextStep.rules.ts";

/** Returns when a lease begins, by two clocks: setting one moves it, and the other may stop with the machine. */
export const startLease = ({ clock, monotonicMs = () => performance.now() }: BillingContext) => ({
  at: clock.now(),
  monotonicMs: monotonicMs(),
});

export type LeaseStart = ReturnType<typeof startLease>;

/** Returns whether a call that begins now could outlast the lease. */
const isTooLate = (start: LeaseStart, context: BillingContext): boolean => {
  const now = startLease(context);
  const elapsedMs = Math.max(
    now.at.getTime() - start.at.getTime(),
    now.monotonicMs - start.monotonicMs,
  );
  return elapsedMs >= LEASE_MS - CALL_TIMEOUT_MS;
};

type AttemptOptions = { readonly started: LeaseStart; readonly signal: AbortSignal };

/** Makes the attempt as the rules decide. Whatever the processor's sums decide is recorded here. */
const makeAttempt = async (
  context: BillingContext,
  event: StoredMeterEvent,
  { started, signal }: AttemptOptions,
): Promise<SendResult> => {
  const { stripe } = context.billing;
  if (stripe === null) {
    return misconfigured(STRIPE_MISSING);
  }
  const step = decideNextStep(event, started.at);
  if (step.kind === "settled" || step.kind === "delayed") {
    return step;
  }
  if (step.kind === "ask") {
    return askAboutEvent(context, event, signal);
  }
  const outcome = await inSpan("call stripe", { kind: SpanKind.CLIENT }, () =>
    stripe.send(event, signal, () => !isTooLate(started, context)),
  );
  return decideResult(event, outcome);
};

type Outcome = RecordedOutcome & { readonly event: StoredMeterEvent };

/**
 * Creates the records of attempts, unless other ones have begun: those of the same time are made in one statement. A failure is
 * an event for clients, and refunds of usage that was sent again may be sent.
 */
export const createOutcomeRecords = ({ db }: BillingContext, collectMs?: () => number) =>
  joinCalls(async (outcomes: readonly Outcome[]) => {
    await db.transaction(async (transaction) => {
      const recorded = new Set(await recordOutcomes(transaction, outcomes));
      const current = outcomes.filter(({ event }) => recorded.has(event.id));
      for (const { event, result, now } of current) {
        if (result.kind === "settled" && result.state === "failed") {
          await recordUsageEvent(transaction, event, "failed", now);
        }
      }
      // Nothing waits for usage that has never failed.
      const sentAgain = current.flatMap(({ event }) => (event.generation > 0 ? event.id : []));
      if (sentAgain.length > 0) {
        await releaseRefunds(transaction, sentAgain);
      }
    });
    return outcomes.map(() => undefined);
  }, collectMs && { collectMs });

/** Makes an attempt that has begun, and records its outcome. */
export const finishSending = async (
  context: BillingContext & { readonly record: ReturnType<typeof createOutcomeRecords> },
  event: StoredMeterEvent,
  options: AttemptOptions,
): Promise<SendResult> => {
  const { id, accountId } = event;
  const result = await inSpan(
    "send usage",
    { attributes: { "impact.meter_event.id": String(id), "impact.account.id": accountId } },
    () => makeAttempt(context, event, options),
  );
  await context.record({ event, result, now: context.clock.now() });
  return result;
};
