import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { Activities } from "../activities/createActivities.ts";
import type { UsageStream } from "../domain/usage.ts";

/** Tells a sender that facts are waiting. It carries nothing: what there is to send stands in the database. */
export const wakeSignal = defineSignal("wake");

/** One sender per stream: the processor takes one call at a time for a customer and meter. */
export const usageSenderId = ({ accountId, mode, meter }: UsageStream): string =>
  `usage-sender/${accountId}/${mode}/${meter}`;

const IDLE_TIME = "2 minutes";

const { drainUsage } = proxyActivities<Activities>({
  // The drain itself ends within its budget of 20 seconds and one call.
  startToCloseTimeout: "2 minutes",
  heartbeatTimeout: "10 seconds",
  // A minute at most, since usage that comes meanwhile waits behind the present event.
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "1 minute" },
});

/** Reports a stream's usage until nothing is left, waits a while for more, and ends; the dispatcher starts it again. */
export const usageSender = async (stream: UsageStream): Promise<void> => {
  let woken = true;
  setHandler(wakeSignal, () => {
    woken = true;
  });
  while (woken) {
    woken = false;
    const { moreIsReady } = await drainUsage(stream);
    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof usageSender>(stream);
    }
    woken ||= moreIsReady;
    await condition(() => woken, IDLE_TIME);
  }
};
