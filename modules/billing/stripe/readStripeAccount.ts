import { Stripe } from "stripe";
import type { StripeAccount } from "../deployment.rules.ts";
import { ProcessorMismatchError } from "../processor.ts";

const LIVE_KEY = /^[rs]k_live_/u;

/** Stripe's refusal of a restricted key names the account that the key belongs to. */
const ACCOUNT_ID = /\bacct_\w+/u;

const readAccountId = async (stripe: Stripe): Promise<string> => {
  try {
    const { id } = await stripe.accounts.retrieveCurrent();
    return id;
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripePermissionError)) {
      throw error;
    }
    const id = ACCOUNT_ID.exec(error.message)?.[0];
    if (id === undefined) {
      throw new ProcessorMismatchError(
        "STRIPE_SECRET_KEY may not read its own Stripe account. Give the restricted key read access to the account.",
        { cause: error },
      );
    }
    return id;
  }
};

/** Returns the account that a key belongs to, and whether the key is live. */
export const readStripeAccount = async (
  stripe: Stripe,
  secretKey: string,
): Promise<StripeAccount> => ({
  id: await readAccountId(stripe),
  isLive: LIVE_KEY.test(secretKey),
});
