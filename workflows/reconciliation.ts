import { proxyActivities, sleep } from "@temporalio/workflow";
import type { Activities } from "../activities/createActivities.ts";

export const RECONCILIATION_ID = "reconciliation";

const { reconcileUsage } = proxyActivities<Activities>({
  startToCloseTimeout: "1 hour",
  heartbeatTimeout: "2 minutes",
  retry: { initialInterval: "1 minute", backoffCoefficient: 2, maximumAttempts: 5 },
});

const POLLS = 3;
const POLL_INTERVAL = "5 minutes";

/** Compares the processor's usage with ours; a difference counts when it is there at three polls. */
export const reconciliation = async (): ReturnType<typeof reconcileUsage> => {
  for (let poll = 1; ; poll += 1) {
    const isFinal = poll === POLLS;
    const report = await reconcileUsage({ isFinal });
    if (isFinal || report.drifting.length === 0) {
      return report;
    }
    await sleep(POLL_INTERVAL);
  }
};
