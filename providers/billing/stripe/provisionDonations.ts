import type { Stripe } from "stripe";
import { NOT_BILLED } from "./subscriptionPeriod.ts";

/** Stripe's ids of the prices that a donating organization pays: one a month, one by a meter. */
export type DonationPrices = { readonly flat: string; readonly metered: string };

type NewItem = Stripe.SubscriptionUpdateParams.Item;

const findMissing = async (
  stripe: Stripe,
  subscriptionId: string,
  { flat, metered }: DonationPrices,
): Promise<readonly NewItem[]> => {
  // The subscription itself carries its first ten items only.
  const items = await stripe.subscriptionItems
    .list({ subscription: subscriptionId, limit: 100 })
    .autoPagingToArray({ limit: 10_000 });
  const existing = new Set(items.map(({ price }) => price.id));
  // A metered item takes no quantity.
  return [{ price: flat, quantity: 1 }, { price: metered }].filter(
    ({ price }) => !existing.has(price),
  );
};

/**
 * Adds what is missing of the donations' items in one update of the subscription, which changes everything or nothing,
 * and reads back what is there. An update whose answer is lost may have been carried out: the items tell.
 * @throws when the items are not all there in the end
 */
export const provisionDonations = async (
  stripe: Stripe,
  subscriptionId: string,
  prices: DonationPrices | null,
  idempotencyKey: string,
): Promise<void> => {
  if (prices === null) {
    throw new Error("STRIPE_DONATION_FLAT_PRICE and STRIPE_DONATION_METERED_PRICE are not set.");
  }
  const { status } = await stripe.subscriptions.retrieve(subscriptionId);
  if (NOT_BILLED.has(status)) {
    throw new Error(`Stripe's subscription ${subscriptionId} is ${status}.`);
  }
  const missing = await findMissing(stripe, subscriptionId, prices);
  if (missing.length === 0) {
    return;
  }
  const fault = await stripe.subscriptions
    .update(
      subscriptionId,
      {
        items: [...missing],
        proration_behavior: "none",
        payment_behavior: "error_if_incomplete",
      },
      { idempotencyKey },
    )
    .then(
      () => new Error(`Stripe has not added the items to ${subscriptionId}.`),
      (error: unknown) => error,
    );
  const stillMissing = await findMissing(stripe, subscriptionId, prices);
  if (stillMissing.length > 0) {
    throw new Error("Stripe has not added the donations' items.", { cause: fault });
  }
};
