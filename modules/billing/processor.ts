import { UnavailableError } from "../../runtime/errors.rules.ts";
import type { StoredMeterEvent } from "./meterEvents.rules.ts";
import type { AttemptOutcome } from "./sending/decideNextStep.rules.ts";

/**
 * A sealed meter event to send. Only `keyGeneration` may differ between two attempts: it is part of the request's idempotency key,
 * and increases after an error that was saved under that key.
 */
export type MeterEvent = Pick<
  StoredMeterEvent,
  "identifier" | "customerId" | "kind" | "quantity" | "second" | "keyGeneration"
>;

/** What `send` returns if it may not call. */
export const NOT_CALLED: AttemptOutcome = {
  kind: "retry",
  reason: "There was no call: the process was stopped or too slow.",
  outcomeUnknown: false,
};

/** A payment page for a store's top-up. */
export type NewCheckout = {
  readonly deploymentId: string;
  readonly storeId: string;
  /** What the merchant and the operator see of the payment. */
  readonly description: string;
  readonly amountCents: number;
  /** Where Stripe leads the merchant afterwards. */
  readonly successUrl: string;
  readonly cancelUrl: string;
  /** Requests with the same key get the same page. */
  readonly idempotencyKey: string | null;
};

/** The processor does not know the customer whose usage is asked for, such as a deleted one. Repeating the call does not help. */
export class UsageUnreadableError extends Error {
  override readonly name = "UsageUnreadableError";
}

/** The processor is down, limits the rate, does not accept the key, or there is none. Or a subscription does not run yet. */
export class ProcessorUnavailableError extends Error {
  override readonly name = "ProcessorUnavailableError";
}

/** The processor does not have an event that a webhook announced, or it is not what its type says. */
export class ProcessorEventUnreadableError extends Error {
  override readonly name = "ProcessorEventUnreadableError";
}

/** The key is of another account, or a meter at the processor is not configured as we need it. Repeating the call does not help. */
export class ProcessorMismatchError extends Error {
  override readonly name = "ProcessorMismatchError";
}

/** A client waits for the answer. */
const CLIENT_TIMEOUT_MS = 8000;

/** @throws UnavailableError if the processor cannot be used */
export const askForClient = async <Result>(
  ask: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> => {
  try {
    return await ask(AbortSignal.timeout(CLIENT_TIMEOUT_MS));
  } catch (error) {
    throw error instanceof ProcessorUnavailableError || error instanceof ProcessorMismatchError
      ? new UnavailableError("the payment processor is temporarily unavailable, try again", {
          cause: error,
        })
      : error;
  }
};
