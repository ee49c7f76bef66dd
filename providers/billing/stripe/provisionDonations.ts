import type { Stripe } from "stripe";
import type { DonationPrices } from "./donationPrices.ts";
import { NOT_BILLED } from "./subscriptionPeriod.ts";

type NewItem = Stripe.SubscriptionUpdateParams.Item;

const findMissing = async (
  stripe: Stripe,
  subscriptionId: string,
  { flat, metered }: DonationPrices,
): Promise<readonly NewItem[]> => {
  // The subscription object contains only its first ten items.
  const items = await stripe.subscriptionItems
    .list({ subscription: subscriptionId, limit: 100 })
    .autoPagingToArray({ limit: 10_000 });
  const existing = new Set(items.map(({ price }) => price.id));
  // Stripe accepts no quantity for a metered item.
  return [{ price: flat, quantity: 1 }, { price: metered }].filter(
    ({ price }) => !existing.has(price),
  );
};

/**
 * Adds the missing items of donations in one update of the subscription, which applies to all of them or to none. Then
 * it reads the items again, because an update whose response is lost may have been applied.
 * @throws Error if an item is still missing
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
  const failure = await stripe.subscriptions
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
      () => new Error(`Stripe did not add the items to ${subscriptionId}.`),
      (error: unknown) => error,
    );
  const stillMissing = await findMissing(stripe, subscriptionId, prices);
  if (stillMissing.length > 0) {
    throw new Error("Stripe did not add the items of donations.", { cause: failure });
  }
};
