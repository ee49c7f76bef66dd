import type { Config } from "../config/config.ts";
import type { StripeOptions } from "../providers/billing/stripe/createStripeProcessor.ts";

/** Returns how to call Stripe; null if live usage goes to the built-in ledger. */
export const readStripeOptions = ({
  STRIPE_SECRET_KEY: secretKey,
  STRIPE_API_BASE: apiBase,
  STRIPE_DONATION_FLAT_PRICE: flat,
  STRIPE_DONATION_METERED_PRICE: metered,
}: Config): StripeOptions | null =>
  secretKey === undefined
    ? null
    : {
        secretKey,
        apiBase,
        donationPrices: flat === undefined || metered === undefined ? null : { flat, metered },
      };
