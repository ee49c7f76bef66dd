import { Stripe } from "stripe";
import { createStripeClient, readStripeAccount } from "./createStripeClient.ts";
import type { StripeClientOptions } from "./createStripeClient.ts";
import { inspectMeters, listMeterIds } from "./meters.ts";
import type { Kind } from "../../records/owner.rules.ts";
import type { StripeAccount } from "../deployment.rules.ts";
import { readSubscriptionPeriod, requireBilled } from "./subscriptions.ts";

/**
 * Reads the configuration at Stripe and changes nothing. The results describe problems in sentences. Each call throws if
 * Stripe cannot be reached or refuses the key.
 */
export type StripeInspector = {
  readonly readAccount: () => Promise<StripeAccount>;
  /** Returns what prevents usage from being sent. */
  readonly inspectMeters: () => Promise<readonly string[]>;
  /** Returns why usage of a customer is refused: Stripe does not know it, or it was deleted. Null if nothing is wrong. */
  readonly inspectCustomer: (customerId: string) => Promise<string | null>;
  /**
   * Returns what keeps a customer's usage off its invoices: a subscription that has ended, belongs to another customer,
   * or has no price on the meter of one of the kinds.
   */
  readonly inspectSubscription: (
    customerId: string | null,
    subscriptionId: string,
    kinds: readonly Kind[],
  ) => Promise<readonly string[]>;
};

/** Returns the problem that a check found, or null. An outage of Stripe is thrown. */
const findProblem = (check: Promise<unknown>): Promise<string | null> =>
  check.then(
    () => null,
    (error: unknown) => {
      const isProblem =
        error instanceof Error &&
        (!(error instanceof Stripe.errors.StripeError) ||
          error instanceof Stripe.errors.StripeInvalidRequestError);
      if (!isProblem) {
        throw error;
      }
      return error.message;
    },
  );

const requireBilledCustomer = async (
  stripe: Stripe,
  subscriptionId: string,
  customerId: string | null,
): Promise<void> => {
  const subscription = await stripe.subscriptions.retrieve(subscriptionId);
  const { customer } = subscription;
  const owner = typeof customer === "string" ? customer : customer.id;
  if (owner !== customerId) {
    throw new Error(
      `Stripe's subscription ${subscriptionId} belongs to the customer ${owner}, not ${customerId}.`,
    );
  }
  requireBilled(subscription);
};

const requireExistingCustomer = async (stripe: Stripe, customerId: string): Promise<void> => {
  const customer = await stripe.customers.retrieve(customerId);
  if (customer.deleted === true) {
    throw new Error(`Stripe's customer ${customerId} was deleted.`);
  }
};

const inspectSubscription = async (
  stripe: Stripe,
  customerId: string | null,
  subscriptionId: string,
  kinds: readonly Kind[],
): Promise<readonly string[]> => {
  const meters = await listMeterIds(stripe);
  const meterIds = kinds.map((kind) => meters[kind]).filter((id) => id !== null);
  const problems = [
    await findProblem(requireBilledCustomer(stripe, subscriptionId, customerId)),
    ...(await Promise.all(
      meterIds.map((id) => findProblem(readSubscriptionPeriod(stripe, subscriptionId, id))),
    )),
  ];
  return [...new Set(problems)].filter((problem) => problem !== null);
};

export const createStripeInspector = (options: StripeClientOptions): StripeInspector => {
  const { stripe } = createStripeClient(options);
  return {
    readAccount: () => readStripeAccount(stripe, options.secretKey),
    inspectMeters: () => inspectMeters(stripe),
    inspectCustomer: (customerId) => findProblem(requireExistingCustomer(stripe, customerId)),
    inspectSubscription: (customerId, subscriptionId, kinds) =>
      inspectSubscription(stripe, customerId, subscriptionId, kinds),
  };
};
