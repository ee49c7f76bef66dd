import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@temporalio/client";
import { ScheduleAlreadyRunning, ScheduleOverlapPolicy } from "@temporalio/client";
import type { Logger } from "pino";
import { reconciliation, RECONCILIATION_ID } from "../workflows/reconciliation.ts";

const CALL_DEADLINE_MS = 4000;
const TRY_AGAIN_MS = 5000;

/** Makes sure that the nightly work is scheduled, however often and from however many workers it is asked. */
export const ensureSchedules = async (
  {
    temporal,
    taskQueue,
    logger,
  }: { readonly temporal: Client; readonly taskQueue: string; readonly logger: Logger },
  signal: AbortSignal,
): Promise<void> => {
  while (!signal.aborted) {
    try {
      await temporal.withDeadline(Date.now() + CALL_DEADLINE_MS, () =>
        temporal.schedule.create({
          scheduleId: `${RECONCILIATION_ID}-nightly`,
          // After the day has ended everywhere that bills in UTC, and the processor has caught up.
          spec: { calendars: [{ hour: 1, minute: 30 }] },
          policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: "1 day" },
          action: {
            type: "startWorkflow",
            workflowType: reconciliation,
            workflowId: RECONCILIATION_ID,
            taskQueue,
            args: [],
          },
        }),
      );
      return;
    } catch (error) {
      if (error instanceof ScheduleAlreadyRunning) {
        return;
      }
      logger.warn({ err: error }, "the nightly schedule cannot be set up; trying again");
      await sleep(TRY_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
};
