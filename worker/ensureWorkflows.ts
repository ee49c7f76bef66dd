import type { Client, ScheduleOptions } from "@temporalio/client";
import { ScheduleAlreadyRunning, ScheduleOverlapPolicy } from "@temporalio/client";
import type { Logger } from "pino";
import { HOUR_MS, MINUTE_MS } from "../runtime/durations.rules.ts";
import { PERPETUAL_KINDS, PERPETUAL_RUN_TIMEOUT } from "../runtime/perpetualWork.rules.ts";
import { pause } from "../runtime/waiting.ts";
import { perpetualWork } from "../workflows/perpetualWork.ts";
import { plantingOrder, plantingOrderCreation } from "../workflows/planting.ts";
import {
  plantingOrderCreationId,
  plantingOrderWorkflowId,
  backgroundQueue,
  inDeployment,
  reconciliationId,
  retentionId,
} from "../runtime/temporalNames.rules.ts";
import { reconciliation } from "../workflows/reconciliation.ts";
import { retention } from "../workflows/retention.ts";
import { callTemporal, createOutageLog } from "./repeatedCalls.ts";

const RETRY_INTERVAL_MS = 5000;
/** What runs disappears with Temporal's database, or when an operator deletes it. A dozen calls a minute cost nothing. */
const CHECK_INTERVAL_MS = 60 * 1000;

/**
 * A run that Temporal has lost track of, after its database was restored, would never end, and every later run would be
 * skipped. Each run continues what an earlier one has left.
 */
const NIGHTLY_RUN_TIMEOUT = "23 hours";

const schedulesOf = (
  deployment: string,
  plantingOrderIntervalMs: number,
): readonly ScheduleOptions[] => {
  const taskQueue = backgroundQueue(deployment);
  const nightly = (
    workflowType: () => Promise<unknown>,
    workflowId: string,
    time: { readonly hour: number; readonly minute: number },
  ): ScheduleOptions => ({
    scheduleId: `${workflowId}-nightly`,
    spec: { calendars: [time] },
    policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: "1 day" },
    action: {
      type: "startWorkflow",
      workflowType,
      workflowId,
      taskQueue,
      workflowRunTimeout: NIGHTLY_RUN_TIMEOUT,
    },
  });
  return [
    // The UTC day has ended and the processor's sums include it.
    nightly(reconciliation, reconciliationId(deployment), { hour: 1, minute: 30 }),
    nightly(retention, retentionId(deployment), { hour: 4, minute: 30 }),
    {
      scheduleId: `${plantingOrderCreationId(deployment)}-periodic`,
      spec: { intervals: [{ every: plantingOrderIntervalMs }] },
      // Each run creates orders for all waiting trees, so one makes up for all that were missed.
      policies: {
        overlap: ScheduleOverlapPolicy.SKIP,
        catchupWindow: Math.max(MINUTE_MS, plantingOrderIntervalMs),
      },
      // Trees may wait already: the first run of a long interval could be a day ahead.
      state: { triggerImmediately: true },
      action: {
        type: "startWorkflow",
        workflowType: plantingOrderCreation,
        workflowId: plantingOrderCreationId(deployment),
        taskQueue,
        // For an hour at least; with a long interval, until an hour before the next run.
        workflowRunTimeout: Math.max(HOUR_MS, plantingOrderIntervalMs - HOUR_MS),
      },
    },
  ];
};

/**
 * Creates a schedule if it is missing.
 * @param isKnown false updates an existing schedule to the current settings
 */
const ensureSchedule = async (temporal: Client, schedule: ScheduleOptions, isKnown: boolean) => {
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
      policies: { ...existing.policies, ...schedule.policies },
      action: schedule.action,
    }));
  }
};

/** The options with which a workflow starts unless it runs: Temporal runs one workflow of an id at a time. */
const unlessItRuns = (deployment: string) =>
  ({ workflowIdConflictPolicy: "USE_EXISTING", taskQueue: backgroundQueue(deployment) }) as const;

/** Starts the workflow of an order, unless it runs. One that was terminated starts again. */
export const startPlantingOrder = async (temporal: Client, deployment: string, orderId: number) => {
  await callTemporal(temporal, () =>
    temporal.workflow.start(plantingOrder, {
      ...unlessItRuns(deployment),
      workflowId: plantingOrderWorkflowId(deployment, orderId),
      args: [orderId],
    }),
  );
};

/**
 * Creates the schedules of the periodic workflows and recreates those that disappear, and keeps the perpetual workflows
 * running. Each worker applies its settings to an existing schedule once: otherwise two workers with different settings
 * would overwrite each other's.
 * @returns a promise that resolves after the signal is aborted
 */
export const ensureWorkflows = async (
  {
    temporal,
    deployment,
    logger,
    plantingOrderIntervalMs,
    checkIntervalMs = CHECK_INTERVAL_MS,
    retryIntervalMs = RETRY_INTERVAL_MS,
  }: {
    readonly temporal: Client;
    /** The deployment's name in Temporal. */
    readonly deployment: string;
    readonly logger: Logger;
    readonly plantingOrderIntervalMs: number;
    readonly checkIntervalMs?: number;
    readonly retryIntervalMs?: number;
  },
  signal: AbortSignal,
): Promise<void> => {
  const schedules = schedulesOf(deployment, plantingOrderIntervalMs);
  const known = new Set<ScheduleOptions>();
  const logOutage = createOutageLog(
    logger,
    "the workflows and schedules cannot be started; retrying, and usage, refunds and events wait in the database",
  );
  while (!signal.aborted) {
    let pauseMs = checkIntervalMs;
    try {
      for (const kind of PERPETUAL_KINDS) {
        await callTemporal(temporal, () =>
          temporal.workflow.start(perpetualWork, {
            ...unlessItRuns(deployment),
            workflowId: inDeployment(deployment, kind),
            workflowRunTimeout: PERPETUAL_RUN_TIMEOUT,
            args: [kind],
          }),
        );
      }
      for (const schedule of schedules) {
        await callTemporal(temporal, () => ensureSchedule(temporal, schedule, known.has(schedule)));
        known.add(schedule);
      }
    } catch (error) {
      pauseMs = retryIntervalMs;
      logOutage(error);
    }
    await pause(pauseMs, signal);
  }
};
