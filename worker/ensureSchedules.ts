import { setTimeout as sleep } from "node:timers/promises";
import type { Client, ScheduleOptions } from "@temporalio/client";
import { ScheduleAlreadyRunning, ScheduleOverlapPolicy } from "@temporalio/client";
import type { Logger } from "pino";
import { withTemporalDeadline } from "../program/withTemporalDeadline.ts";
import {
  plantingOrderCreation,
  PLANTING_ORDER_CREATION_ID,
} from "../workflows/plantingOrderCreation.ts";
import { reconciliation, RECONCILIATION_ID } from "../workflows/reconciliation.ts";

const CALLS_WITHIN_MS = 4000;
const TRY_AGAIN_MS = 5000;
/** A schedule goes with a Temporal that keeps its state in memory, or is deleted by somebody. */
const LOOK_AGAIN_MS = 10 * 60 * 1000;

/** Often enough for whoever looks into the log, and not once for every attempt. */
const TELL_AGAIN_MS = 60_000;

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
    scheduleId: `${PLANTING_ORDER_CREATION_ID}-periodic`,
    spec: { intervals: [{ every: plantingOrderIntervalMs }] },
    // Each run creates orders for all waiting trees, so a missed run needs no catching up.
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: "1 minute" },
    action: {
      type: "startWorkflow",
      workflowType: plantingOrderCreation,
      workflowId: PLANTING_ORDER_CREATION_ID,
      taskQueue,
      args: [],
    },
  },
];

/**
 * Creates a schedule that is not there.
 * @param isKnown false gives the one that exists the current settings
 */
const ensureSchedule = async (
  temporal: Client,
  schedule: ScheduleOptions,
  isKnown: boolean,
): Promise<void> => {
  try {
    await temporal.schedule.create(schedule);
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) {
      throw error;
    }
    if (isKnown) {
      return;
    }
    await temporal.schedule.getHandle(schedule.scheduleId).update((existing) => ({
      ...existing,
      spec: schedule.spec,
    }));
  }
};

/**
 * Makes sure that the periodic work is scheduled, from however many workers it is asked, and stays so. A schedule is
 * given the current settings once: two workers that are set differently would take turns.
 * @returns a promise that resolves when the signal has ended it
 */
export const ensureSchedules = async (
  {
    temporal,
    taskQueue,
    plantingOrderIntervalMs,
    logger,
    lookAgainMs = LOOK_AGAIN_MS,
  }: {
    readonly temporal: Client;
    readonly taskQueue: string;
    readonly plantingOrderIntervalMs: number;
    readonly logger: Logger;
    readonly lookAgainMs?: number;
  },
  signal: AbortSignal,
): Promise<void> => {
  const schedules = schedulesOf(taskQueue, plantingOrderIntervalMs);
  const known = new Set<ScheduleOptions>();
  let toldAtMs = -TELL_AGAIN_MS;
  while (!signal.aborted) {
    let pauseMs = lookAgainMs;
    try {
      for (const schedule of schedules) {
        await withTemporalDeadline(temporal, CALLS_WITHIN_MS, () =>
          ensureSchedule(temporal, schedule, known.has(schedule)),
        );
        known.add(schedule);
      }
    } catch (error) {
      pauseMs = TRY_AGAIN_MS;
      if (performance.now() - toldAtMs >= TELL_AGAIN_MS) {
        logger.warn({ err: error }, "the periodic work cannot be scheduled; trying again");
        toldAtMs = performance.now();
      }
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
};
