import type { Owner } from "../../records/owner.rules.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { STRIPE_MISSING, usageHeld, wrongProcessor } from "./decideNextStep.rules.ts";
import type { Delay, SendResult } from "./decideNextStep.rules.ts";
import type { BillingContext } from "../context.ts";
import { sealMeterEvent } from "./sealMeterEvents.ts";
import type { Sealing } from "./sealMeterEvents.ts";
import { sendMeterEvent } from "./sendMeterEvent.ts";
import type { AttemptResult } from "./sendMeterEvent.ts";
import { awaitStripeCall, lowerStripeCallRate } from "./shareCallRate.ts";

/** Enough to make an activity worth its overhead, and few enough to end well before a worker's shutdown times out. */
const BUDGET_EVENTS = 200;
const BUDGET_MS = 20_000;

/**
 * `done`: nothing more is ready. `more`: the budget is spent. `delayed`: the current event must wait. Without an own sender, the
 * sender of its shard goes on with it.
 */
export type DrainResult =
  | { readonly kind: "done" | "more" }
  | (Delay & { readonly hasOwnSender: boolean });

type Signals = {
  readonly signal: AbortSignal;
  /** Aborted when no more attempts begin. */
  readonly end: AbortSignal;
};

/**
 * Makes the next attempt of an event. Like those of a shard, calls to Stripe share the rate of all workers.
 * @returns null if the drain ends before the time of the call
 */
const send = async (
  context: BillingContext,
  { id, processor }: StoredMeterEvent,
  { signal, end }: Signals,
): Promise<AttemptResult | null> => {
  if (processor === "stripe" && !(await awaitStripeCall(context.db, end))) {
    return null;
  }
  const result = await sendMeterEvent(context, id, signal);
  if (result.kind === "delayed" && result.cause === "rate_limited") {
    await lowerStripeCallRate(context.db);
  }
  return result;
};

/** The end of an attempt that was not made. The stream's own sender tries again, because it is not in the database. */
const unmade = (delay: Delay): AttemptResult => ({ ...delay, hasOwnSender: true });

const attempt = (
  context: BillingContext,
  sealing: Exclude<Sealing, { readonly kind: "none" | "more" }>,
  signals: Signals,
): Promise<AttemptResult | null> | AttemptResult => {
  switch (sealing.kind) {
    case "event":
      return send(context, sealing.event, signals);
    case "stripe_missing":
      return unmade(STRIPE_MISSING);
    case "held":
      return unmade(usageHeld(sealing.reason));
    case "wrong_processor":
      return unmade(wrongProcessor(sealing.problem));
  }
};

/**
 * Seals and sends a stream's usage, first in, first out and one call at a time, until nothing is ready, an event must
 * wait, or the budget is spent. A failed event does not delay the next one.
 * @param onResult called after each attempt; the id is null if Stripe is not configured and nothing was sealed
 */
export const drainUsage = async (
  context: BillingContext,
  stream: Owner,
  {
    signal,
    onResult,
  }: {
    readonly signal: AbortSignal;
    readonly onResult: (result: SendResult, meterEventId: bigint | null) => void;
  },
): Promise<DrainResult> => {
  const end = AbortSignal.any([signal, AbortSignal.timeout(BUDGET_MS)]);
  for (let sent = 0; sent < BUDGET_EVENTS && !end.aborted; sent += 1) {
    const sealing = await sealMeterEvent(context, stream);
    if (sealing.kind === "none") {
      return { kind: "done" };
    }
    if (sealing.kind === "more") {
      continue;
    }
    const result = await attempt(context, sealing, { signal, end });
    if (result === null) {
      break;
    }
    onResult(result, sealing.kind === "event" ? sealing.event.id : null);
    if (result.kind === "delayed") {
      return result;
    }
  }
  return { kind: "more" };
};
