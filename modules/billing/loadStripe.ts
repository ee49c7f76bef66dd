import type { StripeConnection } from "./createBilling.ts";
import type { ReadWebhook } from "./stripe/createWebhookReader.ts";
import type { StripeOptions } from "./stripe/createStripeProcessor.ts";
import type { StripeInspector } from "./stripe/inspectStripe.ts";

/*
 * Stripe's library is 218 modules, which take 0.1 s CPU to load. Programs that do not call Stripe start without them.
 */

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

/** @param readSecrets null if Stripe sends no webhooks */
export const loadWebhookReader = async (
  readSecrets: (() => readonly string[]) | null,
): Promise<ReadWebhook | null> => {
  if (readSecrets === null) {
    return null;
  }
  const { createWebhookReader } = await import("./stripe/createWebhookReader.ts");
  return createWebhookReader(readSecrets);
};
