import { Stripe } from "stripe";
import { createStripeClient } from "./createStripeClient.ts";
import type { StripeClientOptions } from "./createStripeClient.ts";
import { inspectMeters, listMeterIds } from "./meters.ts";
import { readSubscriptionPeriod } from "./subscriptionPeriod.ts";

/**
 * Looks at what is set up at Stripe, and changes nothing there. Faults are told in sentences; none when all is well.
 * Each look throws when Stripe cannot be reached or refuses the key.
 */
export type StripeInspector = {
  /** What keeps usage from being sent. */
  readonly inspectMeters: () => Promise<readonly string[]>;
  /**
   * What keeps a customer's usage from being on an invoice: a subscription that is over, that is somebody else's, or
   * that has no price on one of our meters.
   */
  readonly inspectSubscription: (
    customerId: string | null,
    subscriptionId: string,
  ) => Promise<readonly string[]>;
};

/** What was found of one item, or null; Stripe's own outage is no finding. */
const findFault = (look: Promise<unknown>): Promise<string | null> =>
  look.then(
    () => null,
    (error: unknown) => {
      const isFinding =
        error instanceof Error &&
        (!(error instanceof Stripe.errors.StripeError) ||
          error instanceof Stripe.errors.StripeInvalidRequestError);
      if (!isFinding) {
        throw error;
      }
      return error.message;
    },
  );

const requireCustomer = async (
  stripe: Stripe,
  subscriptionId: string,
  customerId: string | null,
): Promise<void> => {
  const { customer } = await stripe.subscriptions.retrieve(subscriptionId);
  const owner = typeof customer === "string" ? customer : customer.id;
  if (owner !== customerId) {
    throw new Error(
      `Stripe's subscription ${subscriptionId} is of the customer ${owner}, not ${customerId}.`,
    );
  }
};

const inspectSubscription = async (
  stripe: Stripe,
  customerId: string | null,
  subscriptionId: string,
): Promise<readonly string[]> => {
  const meterIds = Object.values(await listMeterIds(stripe)).filter((id) => id !== null);
  const faults = [
    await findFault(requireCustomer(stripe, subscriptionId, customerId)),
    ...(await Promise.all(
      meterIds.map((id) => findFault(readSubscriptionPeriod(stripe, subscriptionId, id))),
    )),
  ];
  return [...new Set(faults)].filter((fault) => fault !== null);
};

export const createStripeInspector = (options: StripeClientOptions): StripeInspector => {
  const { stripe } = createStripeClient(options);
  return {
    inspectMeters: () => inspectMeters(stripe),
    inspectSubscription: (customerId, subscriptionId) =>
      inspectSubscription(stripe, customerId, subscriptionId),
  };
};
