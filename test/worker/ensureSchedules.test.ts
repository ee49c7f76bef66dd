import type { Client, ScheduleDescription } from "@temporalio/client";
import { ScheduleNotFoundError } from "@temporalio/client";
import type { ExecutionContext } from "ava";
import test from "ava";
import { pino } from "pino";
import { z } from "zod";
import { openTemporalClient } from "../../program/temporal/temporalClient.ts";
import { ensureSchedules } from "../../worker/ensureSchedules.ts";
import { eventually, openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

const RECONCILIATION = "test/reconciliation-nightly";
const ORDER_CREATION = "test/planting-order-creation-periodic";
const HOUR_MS = 60 * 60 * 1000;

const logLine = z.object({ level: z.int() });
const { debug: DEBUG, warn: WARN } = pino.levels.values;

/** Ensures the schedules as a worker does until the test ends. Returns the levels of its log lines so far. */
const startEnsuring = (
  t: ExecutionContext,
  given: { temporal: Client; checkIntervalMs?: number; retryIntervalMs?: number },
): readonly number[] => {
  const levels: number[] = [];
  const shutdown = new AbortController();
  const logger = pino(
    { level: "debug" },
    { write: (line) => levels.push(logLine.parse(JSON.parse(line)).level) },
  );
  const running = ensureSchedules(
    { deployment: "test", plantingOrderIntervalMs: HOUR_MS, logger, ...given },
    shutdown.signal,
  );
  t.teardown(() => {
    shutdown.abort();
    return running;
  });
  return levels;
};

const describe = async (
  { schedule }: Client,
  scheduleId: string,
): Promise<ScheduleDescription | null> => {
  try {
    return await schedule.getHandle(scheduleId).describe();
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) {
      return null;
    }
    throw error;
  }
};

test("a deleted schedule is created again, and the others are not changed", async (t) => {
  const { client: temporal } = await openNamespace(t);
  const levels = startEnsuring(t, { temporal, checkIntervalMs: 500 });
  const isScheduled = async (scheduleId: string): Promise<boolean> =>
    (await describe(temporal, scheduleId)) !== null;
  await eventually(async () => (await isScheduled(RECONCILIATION)) && isScheduled(ORDER_CREATION));
  const changed = [{ every: 2 * HOUR_MS, offset: 0 }];
  await temporal.schedule
    .getHandle(ORDER_CREATION)
    .update((present) => ({ ...present, spec: { intervals: changed } }));

  // Each check goes through all schedules, so the second creation proves that a whole check has passed.
  for (let deletion = 0; deletion < 2; deletion += 1) {
    await temporal.schedule.getHandle(RECONCILIATION).delete();
    await eventually(() => isScheduled(RECONCILIATION));
  }

  t.deepEqual((await describe(temporal, ORDER_CREATION))?.spec.intervals, changed);
  t.deepEqual(levels, []);
});

test("a worker applies its settings to existing schedules when it starts", async (t) => {
  const { client: temporal } = await openNamespace(t);
  await temporal.schedule.create({
    scheduleId: ORDER_CREATION,
    spec: { intervals: [{ every: 2 * HOUR_MS }] },
    action: { type: "startWorkflow", workflowType: "any", taskQueue: "test" },
  });
  startEnsuring(t, { temporal });

  await eventually(async () => {
    const description = await describe(temporal, ORDER_CREATION);
    return description?.spec.intervals?.[0]?.every === HOUR_MS;
  });
  t.pass();
});

test("while Temporal cannot be used, repeated failures log one warning", async (t) => {
  // An unknown namespace fails immediately; with a server that is down, each attempt waits for its timeout.
  const levels = startEnsuring(t, {
    temporal: openTemporalClient({ address: TEMPORAL_ADDRESS, namespace: "nowhere" }),
    retryIntervalMs: 10,
  });

  await eventually(() => levels.length >= 3);

  t.deepEqual(levels.slice(0, 3), [WARN, DEBUG, DEBUG]);
});
