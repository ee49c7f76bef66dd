import { ActivityFailure, RetryState } from "@temporalio/common";
import type { Duration } from "@temporalio/common";
import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { Activities } from "../activities/createActivities.ts";
import type { UsageStream } from "../domain/billing/usage.ts";

/** Tells a sender that facts are waiting. It carries nothing: what there is to send stands in the database. */
export const wakeSignal = defineSignal("wake");

/** What the ids of an account's senders begin with. */
export const usageSenderPrefix = (accountId: string): string => `usage-sender/${accountId}/`;

/** One sender per stream: the processor takes one call at a time for a customer and meter. */
export const usageSenderWorkflowId = ({ accountId, mode, meter }: UsageStream): string =>
  `${usageSenderPrefix(accountId)}${mode}/${meter}`;

const IDLE_TIME = "2 minutes";

const isTimedOut = (error: unknown): boolean =>
  error instanceof ActivityFailure && error.retryState === RetryState.TIMEOUT;

/**
 * Reports a stream's usage until nothing is left, waits a while for more, and ends; the dispatcher starts it again.
 * @param drainWithin how long a run goes on trying. Each wake stays in the history of the run, and Temporal takes ten
 *   thousand signals for one, so that a sender that gets nowhere goes on in another run
 */
export const usageSender = async (
  stream: UsageStream,
  drainWithin: Duration = "6 hours",
): Promise<void> => {
  const { drainUsage } = proxyActivities<Activities>({
    // The drain itself ends within its budget of 20 seconds and one call.
    startToCloseTimeout: "2 minutes",
    scheduleToCloseTimeout: drainWithin,
    heartbeatTimeout: "10 seconds",
    // A minute at most, since usage that comes meanwhile waits behind the current event.
    retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "1 minute" },
  });
  const goOnAnew = () => continueAsNew<typeof usageSender>(stream, drainWithin);
  let woken = true;
  setHandler(wakeSignal, () => {
    woken = true;
  });
  while (woken) {
    woken = false;
    const { moreIsReady } = await drainUsage(stream).catch((error: unknown) =>
      isTimedOut(error) ? goOnAnew() : Promise.reject(error),
    );
    if (workflowInfo().continueAsNewSuggested) {
      await goOnAnew();
    }
    woken ||= moreIsReady;
    await condition(() => woken, IDLE_TIME);
  }
};
