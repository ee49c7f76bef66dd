import { setTimeout as delay } from "node:timers/promises";
import type { Client, ScheduleDescription } from "@temporalio/client";
import { ScheduleNotFoundError } from "@temporalio/client";
import type { ExecutionContext } from "ava";
import test from "ava";
import { pino } from "pino";
import { openTemporalClient } from "../../program/temporalClient.ts";
import { ensureSchedules } from "../../worker/ensureSchedules.ts";
import { eventually, openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

const RECONCILIATION = "reconciliation-nightly";
const PLANTING_ORDER_CREATION = "planting-order-creation-periodic";
const HOUR_MS = 60 * 60 * 1000;

/** Looks after the schedules as a worker does until the test ends; the answer is what it has logged so far. */
const lookAfterSchedules = (
  t: ExecutionContext,
  given: { temporal: Client; checkIntervalMs?: number },
): readonly string[] => {
  const lines: string[] = [];
  const ending = new AbortController();
  const running = ensureSchedules(
    {
      taskQueue: "test",
      plantingOrderIntervalMs: HOUR_MS,
      logger: pino({}, { write: (line) => lines.push(line) }),
      ...given,
    },
    ending.signal,
  );
  t.teardown(() => {
    ending.abort();
    return running;
  });
  return lines;
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

test("a schedule that was deleted comes back, and the others are left alone", async (t) => {
  const { client: temporal } = await openNamespace(t);
  const lines = lookAfterSchedules(t, { temporal, checkIntervalMs: 500 });
  const isScheduled = async (scheduleId: string): Promise<boolean> =>
    (await describe(temporal, scheduleId)) !== null;
  await eventually(
    async () => (await isScheduled(RECONCILIATION)) && isScheduled(PLANTING_ORDER_CREATION),
  );
  // Somebody's change lasts as long as the worker runs.
  const changed = [{ every: 2 * HOUR_MS, offset: 0 }];
  await temporal.schedule
    .getHandle(PLANTING_ORDER_CREATION)
    .update((present) => ({ ...present, spec: { intervals: changed } }));

  await temporal.schedule.getHandle(RECONCILIATION).delete();
  await eventually(() => isScheduled(RECONCILIATION));
  await delay(1000);

  t.deepEqual((await describe(temporal, PLANTING_ORDER_CREATION))?.spec.intervals, changed);
  t.deepEqual(lines, []);
});

test("a worker that starts gives the schedules that exist its own settings", async (t) => {
  const { client: temporal } = await openNamespace(t);
  await temporal.schedule.create({
    scheduleId: PLANTING_ORDER_CREATION,
    spec: { intervals: [{ every: 2 * HOUR_MS }] },
    action: { type: "startWorkflow", workflowType: "any", taskQueue: "test" },
  });
  lookAfterSchedules(t, { temporal });

  await eventually(async () => {
    const description = await describe(temporal, PLANTING_ORDER_CREATION);
    return description?.spec.intervals?.[0]?.every === HOUR_MS;
  });
  t.pass();
});

test("the log tells once that Temporal cannot be used, not at every attempt", async (t) => {
  // It refuses at once, where one that is down lets each attempt wait.
  const lines = lookAfterSchedules(t, {
    temporal: openTemporalClient({ address: TEMPORAL_ADDRESS, namespace: "nowhere" }),
  });
  await eventually(() => lines.length > 0);

  // Two more attempts.
  await delay(12_000);

  t.is(lines.length, 1);
});
