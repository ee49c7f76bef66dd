import type { Duration } from "@temporalio/common";
import { proxyActivities, sleep } from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";

export const RECONCILIATION_ID = "reconciliation";

const { reconcileUsage } = proxyActivities<BillingActivities>({
  startToCloseTimeout: "1 hour",
  heartbeatTimeout: "2 minutes",
  retry: { initialInterval: "1 minute", backoffCoefficient: 2, maximumAttempts: 5 },
});

const POLLS = 3;

type Report = Awaited<ReturnType<typeof reconcileUsage>>;

/** Returns which stream a report is about, without the findings. */
const streamOf = ({
  accountId,
  accountName,
  mode,
  meter,
  processor,
  customerId,
}: Report["drifting"][number]) => ({ accountId, accountName, mode, meter, processor, customerId });

/** Compares the processor's usage with ours. A stream is reported only if it drifts in each of three polls. */
export const reconciliation = async (pollInterval: Duration = "5 minutes"): Promise<Report> => {
  let candidates: readonly ReturnType<typeof streamOf>[] | null = null;
  for (let poll = 1; ; poll += 1) {
    const isFinal = poll === POLLS;
    const report: Report = await reconcileUsage({ isFinal, candidates });
    if (isFinal || report.drifting.length === 0) {
      return report;
    }
    candidates = report.drifting.map(streamOf);
    await sleep(pollInterval);
  }
};
