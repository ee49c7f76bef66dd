import type { Kind } from "../records/owner.rules.ts";
import type { Span } from "./usage.rules.ts";
import type { AttemptOutcome } from "./sending/decideNextStep.rules.ts";
import type { RefusalReport } from "./processorEvents/processorEvents.rules.ts";
import type { BilledSubscription, InvoiceLine } from "./invoices/invoices.rules.ts";
import type { SubscriptionState } from "./subscriptions.rules.ts";

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

/** A system outside that bills usage. Time spans are half-open and in unix seconds; quantities are whole units. */
export type BillingProcessor = {
  /** Finds or creates our meters. Throws a ProcessorMismatchError if one of them counts differently than expected. */
  readonly prepare: () => Promise<void>;
  /**
   * Makes one attempt, without retries, once the event's meter has been checked. Never throws because of the processor's
   * response.
   * @param mayCall asked immediately before the call, because the process may have been frozen meanwhile. If it returns
   * false, no call is made: the usage may have been settled since then, and sealed anew under another identifier
   */
  readonly send: (
    event: MeterEvent,
    signal: AbortSignal,
    mayCall?: () => boolean,
  ) => Promise<AttemptOutcome>;
  /** How long after sending `sumUsage` may not include the usage, in milliseconds. */
  readonly usageLagMs: number;
  /**
   * Returns the usage that the processor has recorded in a span of whole minutes. Throws a
   * UsageUnreadableError if a repeated call would fail too, and any other error if it may succeed: a
   * ProcessorUnavailableError if the processor does not answer.
   */
  readonly sumUsage: (
    customerId: string,
    kind: Kind,
    span: Span,
    signal: AbortSignal,
  ) => Promise<number>;
  /**
   * Returns the state of a subscription, whatever it is. Throws a ProcessorUnavailableError if the processor does not
   * answer, or its answer is not about the subscription.
   */
  readonly readSubscription: (
    subscriptionId: string,
    signal: AbortSignal,
  ) => Promise<SubscriptionState>;
  /**
   * Returns all subscriptions of a customer, and the lines of its invoices, created since a unix second, that bill usage.
   * Throws a ProcessorUnavailableError if the processor does not answer.
   */
  readonly readInvoices: (
    customerId: string,
    since: number,
    signal: AbortSignal,
  ) => Promise<{
    readonly subscriptions: readonly BilledSubscription[];
    readonly lines: readonly InvoiceLine[];
  }>;
  /**
   * Returns what a report of usage that was refused after it had been accepted says. Throws a
   * ProcessorEventUnreadableError if a repeated call would fail too, and any other error if it may succeed.
   */
  readonly readRefusalReport: (eventId: string, signal: AbortSignal) => Promise<RefusalReport>;
  /**
   * Adds the items that donations need to the account's subscription, as far as they are missing. Throws if it cannot
   * add all of them, and then adds none: a ProvisioningRejectedError if the processor's answer is final for the key, and
   * any other error if the outcome is unknown. `keyGeneration` repeats that of an earlier call whose outcome is unknown,
   * and differs from that of all others.
   */
  readonly provisionDonations: (
    subscriber: { readonly accountId: string; readonly subscriptionId: string },
    keyGeneration: number,
    signal: AbortSignal,
  ) => Promise<void>;
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
