import type { Duration } from "@temporalio/common";
import { proxyActivities, sleep } from "@temporalio/workflow";
import type { Activities } from "../activities/createActivities.ts";

export const RECONCILIATION_ID = "reconciliation";

const { reconcileUsage } = proxyActivities<Activities>({
  startToCloseTimeout: "1 hour",
  heartbeatTimeout: "2 minutes",
  retry: { initialInterval: "1 minute", backoffCoefficient: 2, maximumAttempts: 5 },
});

const POLLS = 3;

type Report = Awaited<ReturnType<typeof reconcileUsage>>;

/** Which stream it is, without what was found of it. */
const nameStream = ({
  accountId,
  accountName,
  mode,
  meter,
  processor,
  customerId,
}: Report["drifting"][number]) => ({ accountId, accountName, mode, meter, processor, customerId });

/** Compares the processor's usage with ours; a difference counts where it is there at each of three polls. */
export const reconciliation = async (pollEvery: Duration = "5 minutes"): Promise<Report> => {
  let among: readonly ReturnType<typeof nameStream>[] | null = null;
  for (let poll = 1; ; poll += 1) {
    const isFinal = poll === POLLS;
    const report: Report = await reconcileUsage({ isFinal, among });
    if (isFinal || report.drifting.length === 0) {
      return report;
    }
    among = report.drifting.map(nameStream);
    await sleep(pollEvery);
  }
};
