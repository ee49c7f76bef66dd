import type { DatabasePool } from "slonik";
import type { Mode } from "../../domain/accounts/accounts.ts";
import { createLedgerProcessor } from "./ledger/createLedgerProcessor.ts";
import type { BillingProcessor } from "./processor.ts";
import { createStripeProcessor } from "./stripe/createStripeProcessor.ts";
import type { StripeOptions } from "./stripe/createStripeProcessor.ts";

/** The processors of this deployment. */
export type Billing = {
  /**
   * What bills an account's new usage and its donations of a mode. Test mode never leaves the built-in ledger. Live usage
   * of an account with a Stripe customer is Stripe's, also while Stripe is not set up: the ledger would take it for good,
   * and nobody would ever invoice it.
   */
  readonly processorFor: (
    account: { readonly stripeCustomerId: string | null },
    mode: Mode,
  ) => BillingProcessor["name"];
  /** Null when that processor is not set up. */
  readonly findProcessor: (name: BillingProcessor["name"], mode: Mode) => BillingProcessor | null;
  /** Makes every processor ready to be sent to. */
  readonly prepare: () => Promise<void>;
};

export const createBilling = ({
  db,
  stripe,
}: {
  readonly db: DatabasePool;
  /** Null where live usage stays in the built-in ledger too. */
  readonly stripe: StripeOptions | null;
}): Billing => {
  const ledgers = {
    live: createLedgerProcessor({ db, mode: "live" }),
    test: createLedgerProcessor({ db, mode: "test" }),
  };
  const stripeProcessor = stripe ? createStripeProcessor(stripe) : null;
  return {
    processorFor: ({ stripeCustomerId }, mode) =>
      mode === "live" && (stripeProcessor !== null || stripeCustomerId !== null)
        ? "stripe"
        : "ledger",
    findProcessor: (name, mode) => (name === "stripe" ? stripeProcessor : ledgers[mode]),
    prepare: async () => {
      await stripeProcessor?.prepare();
    },
  };
};
