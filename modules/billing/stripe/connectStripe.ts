import type { StripeConnection } from "../createBilling.ts";
import { createStripeClient } from "./createStripeClient.ts";
import { createStripeProcessor } from "./createStripeProcessor.ts";
import type { StripeOptions } from "./createStripeProcessor.ts";
import { readStripeAccount } from "./readStripeAccount.ts";

export const connectStripe = (options: StripeOptions): StripeConnection => ({
  createProcessor: (requireAccount) => createStripeProcessor(options, { requireAccount }),
  readAccount: () => readStripeAccount(createStripeClient(options).stripe, options.secretKey),
});
