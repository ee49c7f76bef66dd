import type { DatabasePool } from "slonik";
import type { BulkPace } from "../../db/createBulkPace.ts";
import type { Mode } from "../records/owner.rules.ts";
import { createLedgerProcessor } from "./createLedgerProcessor.ts";
import type { ProcessorName } from "./usage.rules.ts";
import type { BillingProcessor } from "./processor.ts";
import type { StripeAccount } from "./deployment.rules.ts";
import { requireProcessor } from "./requireProcessor.ts";

/** What `loadStripe` returns. Nothing here imports Stripe's library, so that only programs that call Stripe load it. */
export type StripeConnection = {
  /** @param requireAccount called with the key's account before the first call that depends on it, until it resolves */
  readonly createProcessor: (
    requireAccount: (account: StripeAccount) => Promise<void>,
  ) => BillingProcessor;
  /** Returns the account of the key. */
  readonly readAccount: () => Promise<StripeAccount>;
};

/** The processors of this deployment. */
export type Billing = {
  /**
   * Returns the processor of an account's new usage and donations in a mode. Test mode always uses the built-in ledger.
   * Live usage of an account with a Stripe customer is Stripe's even if Stripe is not configured: usage in the ledger
   * would never be invoiced.
   */
  readonly processorFor: (
    account: { readonly stripeCustomerId: string | null },
    mode: Mode,
  ) => ProcessorName;
  /** Returns null if that processor is not configured. */
  readonly findProcessor: (name: ProcessorName, mode: Mode) => BillingProcessor | null;
  /** Who bills live usage as far as this process is set up. */
  readonly liveProcessor: ProcessorName;
  /** Returns the account of Stripe's key; null if Stripe is not configured. */
  readonly findStripeAccount: () => Promise<StripeAccount | null>;
  /**
   * Prepares every processor. Throws a ProcessorMismatchError if the deployment has another processor, or a meter counts
   * differently than expected.
   */
  readonly prepare: () => Promise<void>;
};

export const createBilling = ({
  db,
  stripe,
  pace,
}: {
  readonly db: DatabasePool;
  /** When the built-in ledger reads sums. */
  readonly pace?: BulkPace;
  /** Null: live usage goes to the built-in ledger. */
  readonly stripe: StripeConnection | null;
}): Billing => {
  const ledgers = {
    live: createLedgerProcessor({ db, mode: "live", pace }),
    test: createLedgerProcessor({ db, mode: "test", pace }),
  };
  const stripeProcessor = stripe
    ? stripe.createProcessor((account) => requireProcessor(db, { name: "stripe", account }))
    : null;
  return {
    liveProcessor: stripe ? "stripe" : "ledger",
    findStripeAccount: () => (stripe ? stripe.readAccount() : Promise.resolve(null)),
    processorFor: ({ stripeCustomerId }, mode) =>
      mode === "live" && (stripeProcessor !== null || stripeCustomerId !== null)
        ? "stripe"
        : "ledger",
    findProcessor: (name, mode) => (name === "stripe" ? stripeProcessor : ledgers[mode]),
    prepare: async () => {
      await (stripeProcessor
        ? stripeProcessor.prepare()
        : requireProcessor(db, { name: "ledger" }));
    },
  };
};
