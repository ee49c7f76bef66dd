import type { ReadWebhook } from "./stripe/createWebhookReader.ts";
import type { StripeConnection, StripeOptions } from "./stripe/createStripeProcessor.ts";
import type { StripeInspector } from "./stripe/inspectStripe.ts";
import type { Config } from "../../runtime/config/config.ts";

/*
 * Stripe's library is 218 modules, which take 0.1 s CPU to load. Programs that do not call Stripe start without them.
 */

/** Returns how to call Stripe; null if live usage goes to the built-in ledger. */
export const readStripeOptions = (config: Config): StripeOptions | null => {
  const {
    STRIPE_API_BASE: apiBase,
    STRIPE_DONATION_FLAT_PRICE: flat,
    STRIPE_DONATION_METERED_PRICE: metered,
  } = config;
  return config.STRIPE_SECRET_KEY === undefined
    ? null
    : {
        secretKey: config.STRIPE_SECRET_KEY,
        apiBase,
        donationPrices: flat === undefined || metered === undefined ? null : { flat, metered },
      };
};

/** Returns null if Stripe is not configured. */
export const loadStripe = async (
  options: StripeOptions | null,
): Promise<StripeConnection | null> => {
  if (options === null) {
    return null;
  }
  const { connectStripe } = await import("./stripe/createStripeProcessor.ts");
  return connectStripe(options);
};

/** Returns null if Stripe is not configured. */
export const loadStripeInspector = async (
  options: StripeOptions | null,
): Promise<StripeInspector | null> => {
  if (options === null) {
    return null;
  }
  const { createStripeInspector } = await import("./stripe/inspectStripe.ts");
  return createStripeInspector(options);
};

/** @param secrets null if Stripe sends no webhooks */
export const loadWebhookReader = async (
  secrets: readonly string[] | null,
): Promise<ReadWebhook | null> => {
  if (secrets === null) {
    return null;
  }
  const { createWebhookReader } = await import("./stripe/createWebhookReader.ts");
  return createWebhookReader(secrets);
};
