import type { BillingSetup } from "../billingSetup.ts";
import { runReconciliation } from "../../../modules/billing/reconciliation/runReconciliation.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import type { StreamReport } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { listOpenDifferences } from "../../../modules/billing/reconciliation/usageDifferences.sql.ts";
import type { UsageDifference } from "../../../modules/billing/reconciliation/usageDifferences.sql.ts";

const { signal } = new AbortController();

/** Compares the customer's trees. */
export const compare = async ({
  deps,
  stream,
  customerId,
}: BillingSetup): Promise<StreamReport> => {
  const streams = await reconcileUsage(deps, { accountId: stream.accountId }, signal);
  const report = streams.find((each) => each.customerId === customerId && each.kind === "tree");
  if (!report) {
    throw new Error("The stream was not compared.");
  }
  return report;
};

export const reconcile = ({ deps, stream }: BillingSetup) =>
  runReconciliation(deps, { accountId: stream.accountId }, signal);

export const openDifferences = ({
  deps,
  stream,
}: BillingSetup): Promise<readonly UsageDifference[]> =>
  listOpenDifferences(deps.db, { accountId: stream.accountId, span: null, limit: 100 });
