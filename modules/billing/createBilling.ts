import { isDeepStrictEqual } from "node:util";
import type { DatabasePool } from "slonik";
import { systemClock } from "../../runtime/clock.ts";
import { readCell } from "../records/cells.sql.ts";
import type { Mode } from "../records/owner.rules.ts";
import type { BillingTarget } from "./usage.rules.ts";
import type { BillingProcessor, StripeConnection } from "./stripe/createStripeProcessor.ts";
import { ProcessorMismatchError, ProcessorUnavailableError } from "./processor.ts";
import type { LiveProcessor } from "./deployment.rules.ts";
import { findProcessorProblem } from "./deployment.rules.ts";
import { changeDeployment, hasLiveLedgerUsage, lockDeployment } from "./deployment.sql.ts";
import { requestSubscriptionReads } from "./processorEvents/processorEvents.sql.ts";

/**
 * Requires that the deployment bills live usage with the configured processor; the first one to ask is recorded.
 * @throws ProcessorMismatchError if the deployment has another processor or another Stripe account
 */
export const requireProcessor = (db: DatabasePool, configured: LiveProcessor): Promise<void> =>
  db.transaction(async (transaction) => {
    const { processor, originalStripeAccountId } = await lockDeployment(transaction);
    const problem = findProcessorProblem(processor, configured, {
      ledgerHasLiveUsage: await hasLiveLedgerUsage(transaction),
      originalStripeAccountId,
    });
    if (problem !== null) {
      throw new ProcessorMismatchError(problem);
    }
    if (!isDeepStrictEqual(processor, configured)) {
      await changeDeployment(transaction, { processor: configured });
      await requestSubscriptionReads(transaction, systemClock.now());
    }
  });

/** Creates who bills usage in this deployment. The built-in ledger is the database itself, so only Stripe is called. */
export const createBilling = ({
  db,
  stripe: connection,
}: {
  readonly db: DatabasePool;
  readonly stripe: StripeConnection | null;
}) => {
  const stripe = connection
    ? connection.createProcessor(async (account) => {
        await requireProcessor(db, { name: "stripe", account });
        return readCell(db);
      })
    : null;
  return {
    stripe,
    /**
     * Returns where an account's new usage and donations are billed. Live usage of an account with a Stripe customer is
     * Stripe's even if Stripe is not configured: usage in the ledger would never be invoiced.
     */
    targetFor: (
      { stripeCustomerId }: { readonly stripeCustomerId: string | null },
      mode: Mode,
    ): BillingTarget =>
      mode === "live" && (stripe !== null || stripeCustomerId !== null)
        ? { processor: "stripe", customerId: stripeCustomerId }
        : { processor: "ledger", customerId: null },
    /** @throws ProcessorMismatchError if the deployment has another processor, or a meter counts differently than expected */
    prepare: (): Promise<void> =>
      stripe ? stripe.prepare() : requireProcessor(db, { name: "ledger" }),
  };
};

export type Billing = ReturnType<typeof createBilling>;

/** @throws ProcessorUnavailableError if Stripe is not configured */
export const requireStripe = ({ stripe }: Billing): BillingProcessor => {
  if (!stripe) {
    throw new ProcessorUnavailableError(
      "STRIPE_SECRET_KEY is not set here, so nothing can be read from Stripe",
    );
  }
  return stripe;
};
