import { Stripe } from "stripe";
import { createStripeClient } from "./createStripeClient.ts";
import type { StripeClientOptions } from "./createStripeClient.ts";
import { inspectMeters, listMeterIds } from "./meters.ts";
import { readSubscriptionPeriod } from "./subscriptionPeriod.ts";

/**
 * What keeps usage from being sent to Stripe, in sentences; none when all is well. It changes nothing there.
 * @throws when Stripe cannot be reached or refuses the key
 */
export const inspectStripe = (options: StripeClientOptions): Promise<readonly string[]> =>
  inspectMeters(createStripeClient(options).stripe);

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

/**
 * What keeps a customer's usage from being on an invoice, in sentences: a subscription that is over, that is somebody
 * else's, or that has no price on one of our meters. It changes nothing at Stripe.
 * @throws when Stripe cannot be reached or refuses the key
 */
export const inspectSubscription = async (
  options: StripeClientOptions,
  customerId: string | null,
  subscriptionId: string,
): Promise<readonly string[]> => {
  const { stripe } = createStripeClient(options);
  const meterIds = Object.values(await listMeterIds(stripe)).filter((id) => id !== null);
  const faults = [
    await findFault(requireCustomer(stripe, subscriptionId, customerId)),
    ...(await Promise.all(
      meterIds.map((id) => findFault(readSubscriptionPeriod(stripe, subscriptionId, id))),
    )),
  ];
  return [...new Set(faults)].filter((fault) => fault !== null);
};
