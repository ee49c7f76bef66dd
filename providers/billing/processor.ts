import type { Kind } from "../../domain/accounts/accounts.ts";
import type { Period } from "../../domain/billing/billingCycle.ts";
import type { AttemptOutcome } from "../../domain/billing/decideNextStep.ts";
import type { ProcessorName } from "../../domain/billing/usage.ts";

/** Whose usage it is, in the processor's own words where it has some. */
export type BillingCustomer = {
  readonly accountId: string;
  /** Stripe's customer (`cus_…`); the built-in ledger needs none. */
  readonly customerId: string | null;
  readonly subscriptionId: string | null;
};

/** One sealed meter event: every field but `keyGeneration` is the same in every attempt. */
export type MeterEvent = {
  readonly identifier: string;
  readonly customer: BillingCustomer;
  readonly meter: Kind;
  /** Whole units, never 0, at most 15 digits; negative for a refund. */
  readonly quantity: number;
  /** Unix seconds of the registrations that the event covers. */
  readonly second: number;
  /** Part of the request's idempotency key; goes up after a saved 500. */
  readonly keyGeneration: number;
};

/** Others have seen Stripe's sums lag by minutes; this is far longer. */
export const LONGEST_USAGE_LAG_MS = 15 * 60 * 1000;

/** What bills usage. Time spans are half-open and in unix seconds; quantities are whole units. */
export type BillingProcessor = {
  readonly name: ProcessorName;
  /** Finds or creates what the processor needs; throws when a meter there differs from ours. */
  readonly prepare: () => Promise<void>;
  /**
   * One attempt, without retries of its own, and none before what `prepare` looks at was found to be in order. Never
   * throws for anything the processor answers.
   */
  readonly send: (event: MeterEvent, signal: AbortSignal) => Promise<AttemptOutcome>;
  /** How long `sumUsage` may lack what was sent, in milliseconds. */
  readonly usageLagMs: number;
  /**
   * The sum of the usage that the processor has on record in a span. `start` and `end` are whole minutes; without
   * a customer there is none. Throws a UsageUnreadableError when the processor will never tell, any other error when
   * it cannot tell now.
   */
  readonly sumUsage: (
    customer: BillingCustomer,
    meter: Kind,
    span: { readonly start: number; readonly end: number },
    signal: AbortSignal,
  ) => Promise<number>;
  /**
   * The billing period of the customer's subscription for this meter, null when the processor keeps none (the built-in
   * ledger). Throws when it should have one and cannot be read: a refund must not guess.
   */
  readonly findCurrentPeriod: (
    customer: BillingCustomer,
    meter: Kind,
    signal: AbortSignal,
  ) => Promise<Period | null>;
  /**
   * Has the customer's subscription carry the items that donations need; where it does, nothing changes. All are there
   * afterwards, or it throws and none was added that was not there. `attempt` must differ from that of any earlier call
   * for the customer. The built-in ledger has no items and nothing to do.
   */
  readonly provisionDonations: (
    customer: BillingCustomer,
    attempt: number,
    signal: AbortSignal,
  ) => Promise<void>;
};

/** The processor refuses to tell usage, as for a customer who was deleted there; asking again does not help. */
export class UsageUnreadableError extends Error {
  override readonly name = "UsageUnreadableError";
}

/** Something of ours at the processor is set up otherwise than we need it, which no retry mends. */
export class ProcessorMismatchError extends Error {
  override readonly name = "ProcessorMismatchError";
}
