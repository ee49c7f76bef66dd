import { Stripe } from "stripe";
import { KINDS } from "../../../domain/accounts/accounts.ts";
import type { Kind } from "../../../domain/accounts/accounts.ts";
import type { AttemptOutcome } from "../../../domain/billing/decideNextStep.ts";
import {
  LEASE_ENDED,
  LONGEST_USAGE_LAG_MS,
  ProcessorMismatchError,
  ProcessorUnavailableError,
  UsageUnreadableError,
} from "../processor.ts";
import type { BillingProcessor, MeterEvent, Subscriber } from "../processor.ts";
import { createStripeClient } from "./createStripeClient.ts";
import type { StripeClientOptions } from "./createStripeClient.ts";
import { CUSTOMER_KEY, METERS, VALUE_KEY, findOrCreateMeters } from "./meters.ts";
import type { FoundMeter } from "./meters.ts";
import { provisionDonations } from "./provisionDonations.ts";
import type { DonationPrices } from "./donationPrices.ts";
import { outcomeOfError, outcomeOfFailedCheck, outcomeOfResponse } from "./attemptOutcome.ts";
import { readRejectionReport } from "./readRejectionReport.ts";
import { readSubscriptionPeriod, readSubscriptionState } from "./subscriptionPeriod.ts";
import { readStripeAccount } from "./readStripeAccount.ts";
import type { StripeAccount } from "../../../domain/billing/deployment.ts";
import { sumUsage } from "./sumUsage.ts";

/** An attempt that waited longer for the check of the meters could outlast its lease. */
const MAXIMUM_CHECK_MS = 4000;

/**
 * Begins a call without the stack trace that the SDK takes of each caller, which costs a sixth of a call's CPU time. The
 * outcome of a meter event says what failed.
 */
const withoutStackTrace = <Result>(call: () => Promise<Result>): Promise<Result> => {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return call();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
};

/**
 * Runs a read.
 * @throws ProcessorUnavailableError if Stripe does not answer or refuses every call, and what `read` throws
 */
const orUnavailable = async <Result>(read: () => Promise<Result>): Promise<Result> => {
  try {
    return await read();
  } catch (error) {
    throw error instanceof Stripe.errors.StripeError &&
      !(error instanceof Stripe.errors.StripeInvalidRequestError)
      ? new ProcessorUnavailableError(error.message, { cause: error })
      : error;
  }
};

const subscriptionOf = ({ accountId, subscriptionId }: Subscriber): string => {
  if (subscriptionId === null) {
    throw new Error(`The account ${accountId} has no Stripe subscription.`);
  }
  return subscriptionId;
};

export type StripeOptions = StripeClientOptions & {
  /** The prices of the donations' items. Null: donations cannot be provisioned. */
  readonly donationPrices?: DonationPrices | null;
};

type StripeDependencies = {
  /**
   * Called with the key's account before the first call that depends on it, until it resolves.
   * @throws ProcessorMismatchError if the deployment bills through another account
   */
  readonly requireAccount?: (account: StripeAccount) => Promise<void>;
};

/** Creates the processor that bills through Stripe's billing meters. */
export const createStripeProcessor = (
  options: StripeOptions,
  { requireAccount }: StripeDependencies = {},
): BillingProcessor => {
  const { donationPrices = null } = options;
  const { stripe, boundTo } = createStripeClient(options);
  let meters: Promise<Record<Kind, FoundMeter>> | null = null;
  const checkMeters = async (): Promise<Record<Kind, FoundMeter>> => {
    // First, because missing meters are created.
    await requireAccount?.(await readStripeAccount(stripe, options.secretKey));
    return findOrCreateMeters(stripe);
  };
  const findMeters = (): Promise<Record<Kind, FoundMeter>> => {
    meters ??= checkMeters().catch((error: unknown) => {
      meters = null;
      throw error;
    });
    return meters;
  };

  /** @throws ProcessorMismatchError if that meter cannot be used; the next call checks it again */
  const findMeterId = async (kind: Kind): Promise<string> => {
    const { id, problem } = (await findMeters())[kind];
    if (problem !== null) {
      meters = null;
      throw new ProcessorMismatchError(problem);
    }
    return id;
  };

  /** Returns why nothing can be sent now, or null if the meter is usable, which is checked once for all attempts. */
  const findObstacle = async (kind: Kind): Promise<AttemptOutcome | null> => {
    const startedAtMs = performance.now();
    try {
      await findMeterId(kind);
    } catch (error) {
      return outcomeOfFailedCheck(error);
    }
    return performance.now() - startedAtMs > MAXIMUM_CHECK_MS
      ? { kind: "retry", reason: "Checking the meters took too long.", outcomeUnknown: false }
      : null;
  };

  const post = async (
    { identifier, meter, quantity, second, keyGeneration }: MeterEvent,
    customerId: string,
  ): Promise<AttemptOutcome> => {
    try {
      const response = await withoutStackTrace(() =>
        stripe.billing.meterEvents.create(
          {
            event_name: METERS[meter].eventName,
            payload: { [CUSTOMER_KEY]: customerId, [VALUE_KEY]: String(quantity) },
            identifier,
            timestamp: second,
          },
          { idempotencyKey: keyGeneration === 0 ? identifier : `${identifier}#${keyGeneration}` },
        ),
      );
      return outcomeOfResponse(response, identifier);
    } catch (error) {
      const outcome = outcomeOfError(error);
      if (outcome.kind === "misconfigured") {
        // The operator's fix may change the meters.
        meters = null;
      }
      return outcome;
    }
  };

  return {
    name: "stripe",
    prepare: async () => {
      for (const kind of KINDS) {
        await findMeterId(kind);
      }
    },
    send: async (event, signal, mayCall = () => true) => {
      const { accountId, customerId } = event.customer;
      if (customerId === null) {
        return {
          kind: "rejected",
          reason: `The account ${accountId} has no Stripe customer; set one and retry.`,
        };
      }
      return boundTo(signal, async () => {
        const obstacle = await findObstacle(event.meter);
        if (obstacle) {
          return obstacle;
        }
        if (signal.aborted) {
          return { kind: "retry", reason: "Aborted before the call.", outcomeUnknown: false };
        }
        return mayCall() ? post(event, customerId) : LEASE_ENDED;
      });
    },
    usageLagMs: LONGEST_USAGE_LAG_MS,
    sumUsage: (customer, meter, span, signal) =>
      boundTo(signal, async () => {
        const { customerId } = customer;
        if (customerId === null) {
          // Nothing was ever sent.
          return 0;
        }
        return orUnavailable(async () => {
          const meterId = await findMeterId(meter);
          try {
            return await sumUsage({ stripe, meterId, customerId }, span);
          } catch (error) {
            throw error instanceof Stripe.errors.StripeInvalidRequestError
              ? new UsageUnreadableError(error.message, { cause: error })
              : error;
          }
        });
      }),
    findCurrentPeriod: (subscriber, meter, signal) =>
      boundTo(signal, () =>
        orUnavailable(async () => {
          const subscriptionId = subscriptionOf(subscriber);
          const meterId = await findMeterId(meter);
          return readSubscriptionPeriod(stripe, subscriptionId, meterId);
        }),
      ),
    readSubscription: (subscriptionId, signal) =>
      boundTo(signal, () =>
        orUnavailable(async () =>
          readSubscriptionState(
            stripe,
            subscriptionId,
            { tree: await findMeterId("tree"), bottle: await findMeterId("bottle") },
            donationPrices,
          ),
        ),
      ),
    readRejectionReport: (eventId, signal) =>
      boundTo(signal, () => readRejectionReport(stripe, eventId)),
    provisionDonations: (subscriber, keyGeneration, signal) =>
      boundTo(signal, () =>
        provisionDonations(
          stripe,
          { accountId: subscriber.accountId, subscriptionId: subscriptionOf(subscriber) },
          donationPrices,
          keyGeneration,
        ),
      ),
  };
};
