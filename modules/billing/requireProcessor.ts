import type { DatabasePool } from "slonik";
import { lockDeployment, readDeployment, recordProcessor } from "./deployment.sql.ts";
import { hasLiveLedgerUsage } from "./ledgerUsage.sql.ts";
import { decideProcessor } from "./deployment.rules.ts";
import type { LiveProcessor } from "./deployment.rules.ts";
import { ProcessorMismatchError } from "./processor.ts";

/**
 * Requires that the deployment bills live usage with the configured processor; the first one to ask is recorded.
 * @throws ProcessorMismatchError if the deployment has another processor or another Stripe account
 */
export const requireProcessor = async (
  db: DatabasePool,
  configured: LiveProcessor,
): Promise<void> => {
  const { processor, originalStripeAccountId } = await readDeployment(db);
  if (
    decideProcessor(processor, configured, { ledgerHasLiveUsage: true, originalStripeAccountId })
      .kind === "same"
  ) {
    return;
  }
  const decision = await db.transaction(async (transaction) => {
    const current = await lockDeployment(transaction);
    const decided = decideProcessor(current.processor, configured, {
      ledgerHasLiveUsage: await hasLiveLedgerUsage(transaction),
      originalStripeAccountId: current.originalStripeAccountId,
    });
    if (decided.kind === "record") {
      await recordProcessor(transaction, configured, null);
    }
    return decided;
  });
  if (decision.kind === "mismatch") {
    throw new ProcessorMismatchError(decision.problem);
  }
};
