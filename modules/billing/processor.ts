import type { Kind } from "../records/owner.rules.ts";
import type { AttemptOutcome } from "./sending/decideNextStep.rules.ts";

/** The account that usage belongs to, and its customer at the processor. */
export type BillingCustomer = {
  readonly accountId: string;
  /** Stripe's customer (`cus_…`); the built-in ledger needs none. */
  readonly customerId: string | null;
};

/** A sealed meter event to send. Only `keyGeneration` may differ between two attempts. */
export type MeterEvent = {
  readonly identifier: string;
  readonly customer: BillingCustomer;
  readonly kind: Kind;
  /** Whole units, never 0, at most 15 digits; negative for a refund. */
  readonly quantity: number;
  /** Unix seconds of the registrations that the event covers. */
  readonly second: number;
  /** Part of the request's idempotency key. It increases after an error that was saved under that key. */
  readonly keyGeneration: number;
};

/** Stripe's sums have been seen to lag by minutes; this is far longer. */
export const LONGEST_USAGE_LAG_MS = 15 * 60 * 1000;

/** What `send` returns if it may not call. */
export const LEASE_ENDED: AttemptOutcome = {
  kind: "retry",
  reason: "The lease ended before the call: the process was stopped or too slow.",
  outcomeUnknown: false,
};

/** The processor refuses to report usage, for example of a deleted customer. Repeating the call does not help. */
export class UsageUnreadableError extends Error {
  override readonly name = "UsageUnreadableError";
}

/**
 * The processor does not answer, or no call is possible: it is down, limits the rate, or does not accept the key, or there is
 * no key. Or it answers that a subscription does not run yet.
 */
export class ProcessorUnavailableError extends Error {
  override readonly name = "ProcessorUnavailableError";
}

/** The processor does not have an event that a webhook announced, or it is not what its type says. */
export class ProcessorEventUnreadableError extends Error {
  override readonly name = "ProcessorEventUnreadableError";
}

/** The processor has answered that it does not add the items of donations. The same idempotency key repeats that answer. */
export class ProvisioningRejectedError extends Error {
  override readonly name = "ProvisioningRejectedError";
}

/** The key is of another account, or a meter at the processor is not configured as we need it. Repeating the call does not help. */
export class ProcessorMismatchError extends Error {
  override readonly name = "ProcessorMismatchError";
}

/** Returns whether the processor cannot be used, whatever is asked. The command line exits with 4 then. */
export const isProcessorUnusable = (error: unknown): boolean =>
  error instanceof ProcessorUnavailableError || error instanceof ProcessorMismatchError;
