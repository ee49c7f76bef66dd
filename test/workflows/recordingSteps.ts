import { setTimeout as delay } from "node:timers/promises";
import type {
  Client,
  WorkflowHandle,
  WorkflowHandleWithFirstExecutionRunId,
} from "@temporalio/client";
import type { BillingActivities } from "../../activities/createBillingActivities.ts";
import type { DonationActivities } from "../../activities/createDonationActivities.ts";
import type { PlantingActivities } from "../../activities/createPlantingActivities.ts";
import type { RetentionActivities } from "../../activities/createRetentionActivities.ts";
import type { PerpetualActivities } from "../../activities/createPerpetualActivities.ts";

/** Scripted activities, and what runs the workflow whose history is recorded. */
export type Recording = {
  readonly activities: Partial<
    BillingActivities &
      DonationActivities &
      PerpetualActivities &
      PlantingActivities &
      RetentionActivities
  >;
  readonly run: (client: Client) => Promise<WorkflowHandle>;
};

/** Returns an activity that produces the results in order and repeats the last one. */
export const inOrder = <Result>(...results: readonly (() => Result)[]): (() => Promise<Result>) => {
  let calls = 0;
  return () => {
    const result = results[Math.min(calls, results.length - 1)];
    calls += 1;
    if (!result) {
      throw new Error("The activity has no results.");
    }
    return Promise.resolve(result());
  };
};

/** Waits until so many activities of the workflow have completed. */
export const activitiesCompleted = async (handle: WorkflowHandle, count: number): Promise<void> => {
  for (;;) {
    const { events } = await handle.fetchHistory();
    const completed = events?.filter((event) => event.activityTaskCompletedEventAttributes);
    if ((completed?.length ?? 0) >= count) {
      return;
    }
    await delay(50);
  }
};

/** Waits until a workflow and the runs that continue it have ended, and returns its first run. */
export const firstRunOf = async (
  client: Client,
  handle: WorkflowHandleWithFirstExecutionRunId,
): Promise<WorkflowHandle> => {
  await handle.result();
  return client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
};
