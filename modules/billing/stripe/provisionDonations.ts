import { createHash } from "node:crypto";
import { Stripe } from "stripe";
import { ProvisioningRejectedError } from "../processor.ts";
import type { DonationPrices } from "./subscriptions.ts";
import { listItems, requireBilled } from "./subscriptions.ts";

type NewItem = Stripe.SubscriptionUpdateParams.Item;

const findMissing = async (
  stripe: Stripe,
  subscriptionId: string,
  { flat, metered }: DonationPrices,
): Promise<readonly NewItem[]> => {
  const items = await listItems(stripe, subscriptionId);
  const existing = new Set(items.map(({ price }) => price.id));
  // Stripe accepts no quantity for a metered item.
  return [{ price: flat, quantity: 1 }, { price: metered }].filter(
    ({ price }) => !existing.has(price),
  );
};

/** The same update has the same key, so that Stripe applies it once although a response was lost. */
const keyOf = (
  { accountId, subscriptionId }: { readonly accountId: string; readonly subscriptionId: string },
  missing: readonly NewItem[],
  keyGeneration: number,
): string => {
  const prices = createHash("sha256")
    .update(missing.map(({ price }) => price).join(" "))
    .digest("hex")
    .slice(0, 16);
  return `donations:${accountId}:${subscriptionId}:${prices}:${keyGeneration}`;
};

/** Returns whether Stripe has answered, and would repeat the answer under the same key. */
const isFinal = (error: unknown): boolean =>
  error instanceof Stripe.errors.StripeError &&
  error.statusCode !== undefined &&
  (error.statusCode >= 500
    ? error.headers?.["stripe-should-retry"] === "false"
    : error.statusCode !== 409 && error.statusCode !== 429);

/**
 * Adds the missing items of donations in one update of the subscription, which applies to all of them or to none. Then
 * it reads the items again, because an update whose response is lost may have been applied.
 * @throws ProvisioningRejectedError if an item is still missing and Stripe's answer is final, otherwise Error
 */
export const provisionDonations = async (
  stripe: Stripe,
  customer: { readonly accountId: string; readonly subscriptionId: string },
  prices: DonationPrices | null,
  keyGeneration: number,
): Promise<void> => {
  if (prices === null) {
    throw new Error("STRIPE_DONATION_FLAT_PRICE and STRIPE_DONATION_METERED_PRICE are not set.");
  }
  const { subscriptionId } = customer;
  requireBilled(await stripe.subscriptions.retrieve(subscriptionId));
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
      { idempotencyKey: keyOf(customer, missing, keyGeneration) },
    )
    .then(
      // An earlier answer, repeated after the items were removed.
      () => new ProvisioningRejectedError(`Stripe did not add the items to ${subscriptionId}.`),
      (error: unknown) => error,
    );
  const stillMissing = await findMissing(stripe, subscriptionId, prices);
  if (stillMissing.length > 0) {
    const message = "Stripe did not add the donation items.";
    throw failure instanceof ProvisioningRejectedError || isFinal(failure)
      ? new ProvisioningRejectedError(message, { cause: failure })
      : new Error(message, { cause: failure });
  }
};
