import { setTimeout as sleep } from "node:timers/promises";
import type { Client, ScheduleOptions } from "@temporalio/client";
import { ScheduleAlreadyRunning, ScheduleOverlapPolicy } from "@temporalio/client";
import type { Logger } from "pino";
import { callTemporalWithin } from "../program/callTemporalWithin.ts";
import { plantingGathering, PLANTING_GATHERING_ID } from "../workflows/plantingGathering.ts";
import { reconciliation, RECONCILIATION_ID } from "../workflows/reconciliation.ts";

const CALLS_WITHIN_MS = 4000;
const TRY_AGAIN_MS = 5000;

const schedulesOf = (
  taskQueue: string,
  plantingOrderIntervalMs: number,
): readonly ScheduleOptions[] => [
  {
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
  },
  {
    scheduleId: `${PLANTING_GATHERING_ID}-periodic`,
    spec: { intervals: [{ every: plantingOrderIntervalMs }] },
    // A gathering takes all that waits, so one that was missed is made up for by the next.
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: "1 minute" },
    action: {
      type: "startWorkflow",
      workflowType: plantingGathering,
      workflowId: PLANTING_GATHERING_ID,
      taskQueue,
      args: [],
    },
  },
];

/** Creates a schedule, or gives the one that exists the current settings. */
const ensureSchedule = async (temporal: Client, schedule: ScheduleOptions): Promise<void> => {
  try {
    await temporal.schedule.create(schedule);
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) {
      throw error;
    }
    await temporal.schedule.getHandle(schedule.scheduleId).update((existing) => ({
      ...existing,
      spec: schedule.spec,
    }));
  }
};

/** Makes sure that the periodic work is scheduled, however often and from however many workers it is asked. */
export const ensureSchedules = async (
  {
    temporal,
    taskQueue,
    plantingOrderIntervalMs,
    logger,
  }: {
    readonly temporal: Client;
    readonly taskQueue: string;
    readonly plantingOrderIntervalMs: number;
    readonly logger: Logger;
  },
  signal: AbortSignal,
): Promise<void> => {
  const waiting = [...schedulesOf(taskQueue, plantingOrderIntervalMs)];
  for (let schedule = waiting.at(0); schedule && !signal.aborted; schedule = waiting.at(0)) {
    const current = schedule;
    try {
      await callTemporalWithin(temporal, CALLS_WITHIN_MS, () => ensureSchedule(temporal, current));
      waiting.shift();
    } catch (error) {
      logger.warn({ err: error }, "the periodic work cannot be scheduled; trying again");
      await sleep(TRY_AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
};
