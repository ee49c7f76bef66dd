import type { DatabasePool } from "slonik";
import type { Mode } from "../../domain/accounts.ts";
import { createLedgerProcessor } from "./ledger/createLedgerProcessor.ts";
import type { BillingProcessor } from "./processor.ts";
import { createStripeProcessor } from "./stripe/createStripeProcessor.ts";
import type { StripeOptions } from "./stripe/createStripeProcessor.ts";

/** The processors of this deployment. */
export type Billing = {
  /** What bills new usage of a mode. Test mode never leaves the built-in ledger. */
  readonly forMode: (mode: Mode) => BillingProcessor;
  /** The processor that an event was sealed for; null when it is not set up any more. */
  readonly named: (name: BillingProcessor["name"], mode: Mode) => BillingProcessor | null;
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
    forMode: (mode) => (mode === "live" ? (stripeProcessor ?? ledgers.live) : ledgers.test),
    named: (name, mode) => (name === "stripe" ? stripeProcessor : ledgers[mode]),
    prepare: async () => {
      await stripeProcessor?.prepare();
    },
  };
};
