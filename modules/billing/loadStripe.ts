import type { ReadWebhook } from "./stripe/createWebhookReader.ts";
import type { StripeConnection, StripeOptions } from "./stripe/createStripeProcessor.ts";
import type { StripeInspector } from "./stripe/inspectStripe.ts";
import type { Config } from "../../runtime/config/config.ts";

/* Stripe's library is 218 modules, which take 0.1 s CPU to load. Programs that do not call Stripe start without them. */

const optionsOf = ({
  STRIPE_SECRET_KEY: secretKey,
  STRIPE_API_BASE: apiBase,
  STRIPE_DONATION_FLAT_PRICE: flat,
  STRIPE_DONATION_METERED_PRICE: metered,
}: Config): StripeOptions | null => {
  const donationPrices = flat === undefined || metered === undefined ? null : { flat, metered };
  return secretKey === undefined ? null : { secretKey, apiBase, donationPrices };
};

export const loadStripe = async (config: Config): Promise<StripeConnection | null> => {
  const options = optionsOf(config);
  return options && (await import("./stripe/createStripeProcessor.ts")).connectStripe(options);
};

/** Returns null if Stripe is not configured. */
export const loadStripeInspector = async (config: Config): Promise<StripeInspector | null> => {
  const options = optionsOf(config);
  return options && (await import("./stripe/inspectStripe.ts")).createStripeInspector(options);
};

/** Returns null if Stripe sends no webhooks. */
export const loadWebhookReader = async ({
  STRIPE_WEBHOOK_SECRET: secrets,
}: Config): Promise<ReadWebhook | null> =>
  secrets === undefined
    ? null
    : (await import("./stripe/createWebhookReader.ts")).createWebhookReader(secrets.split(","));
