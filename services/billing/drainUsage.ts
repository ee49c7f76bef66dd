import type { DatabasePool } from "slonik";
import type { Clock } from "../../domain/clock.ts";
import type { UsageStream } from "../../domain/billing/usage.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { sealMeterEvent } from "./sealMeterEvent.ts";
import type { SendResult } from "./sendMeterEvent.ts";
import { MISCONFIGURED_PAUSE_MS, sendMeterEvent } from "./sendMeterEvent.ts";

/** Enough to make an activity worth its overhead, little enough to end well before a worker's shutdown gives up. */
const BUDGET_EVENTS = 200;
const BUDGET_MS = 20_000;

const PROCESSOR_MISSING: SendResult = {
  kind: "delayed",
  cause: "misconfigured",
  reason: "the account has a Stripe customer, and Stripe is not set up",
  afterMs: MISCONFIGURED_PAUSE_MS,
};

/** `done`: nothing is ready any more. `more`: the budget is spent. `delayed`: the current event must wait. */
export type DrainResult =
  | { readonly kind: "done" | "more" }
  | Extract<SendResult, { readonly kind: "delayed" }>;

/**
 * Seals and sends a stream's usage, first in, first out, one call at a time, until nothing is ready, an event must wait,
 * or the budget is spent. An event that fails for good is on record and does not hold up the next.
 */
export const drainUsage = async (
  deps: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  stream: UsageStream,
  {
    signal,
    onResult,
  }: { readonly signal: AbortSignal; readonly onResult: (result: SendResult) => void },
): Promise<DrainResult> => {
  const startedAtMs = performance.now();
  for (let sent = 0; sent < BUDGET_EVENTS; sent += 1) {
    if (signal.aborted || performance.now() - startedAtMs > BUDGET_MS) {
      return { kind: "more" };
    }
    const sealing = await sealMeterEvent(deps, stream);
    if (sealing.kind === "none") {
      return { kind: "done" };
    }
    const result =
      sealing.kind === "event"
        ? await sendMeterEvent(deps, sealing.event.id, signal)
        : PROCESSOR_MISSING;
    onResult(result);
    if (result.kind === "delayed") {
      return result;
    }
  }
  return { kind: "more" };
};
