import type { StripeConnection } from "./stripe/createStripeProcessor.ts";
import type { Config } from "../../runtime/config/config.ts";

/* Stripe's library is 218 modules, which take 0.1 s CPU to load. Programs that do not call Stripe start without them. */

/** Returns null if Stripe is not configured: live usage goes to the built-in ledger. */
export const loadStripe = async ({
  STRIPE_SECRET_KEY: secretKey,
  STRIPE_API_BASE: apiBase,
  STRIPE_DONATION_FLAT_PRICE: flat,
  STRIPE_DONATION_METERED_PRICE: metered,
}: Config): Promise<StripeConnection | null> => {
  if (secretKey === undefined) {
    return null;
  }
  const { connectStripe } = await import("./stripe/createStripeProcessor.ts");
  const donationPrices = flat === undefined || metered === undefined ? null : { flat, metered };
  return connectStripe({ secretKey, apiBase, donationPrices });
};

/** Returns null if Stripe sends no webhooks. */
export const loadWebhookReader = async ({ STRIPE_WEBHOOK_SECRET: secrets }: Config) =>
  secrets === undefined
    ? null
    : (await import("./stripe/createWebhookReader.ts")).createWebhookReader(secrets.split(","));
