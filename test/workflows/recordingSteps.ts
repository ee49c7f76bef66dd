import { setTimeout as delay } from "node:timers/promises";
import type { WorkflowHandle } from "@temporalio/client";

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
