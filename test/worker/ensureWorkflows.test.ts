import { ScheduleNotFoundError } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import test from "ava";
import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { z } from "zod";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../runtime/durations.rules.ts";
import { PERPETUAL_KINDS } from "../../runtime/perpetualWork.rules.ts";
import { openTemporalClient } from "../../runtime/temporalClient.ts";
import { inDeployment } from "../../runtime/temporalNames.rules.ts";
import { ensureWorkflows } from "../../worker/ensureWorkflows.ts";
import { eventually, openNamespace, readStatus, TEMPORAL_ADDRESS } from "../support/programs.ts";

const DEPLOYMENT = "test";
const RECONCILIATION = "test/reconciliation-nightly";
const ORDER_CREATION = "test/planting-order-creation-periodic";

const logLine = z.looseObject({
  level: z.int(),
  err: z.object({ message: z.string() }).optional(),
});
const { debug: DEBUG, warn: WARN } = pino.levels.values;

type Given = Partial<Parameters<typeof ensureWorkflows>[0]> & { readonly temporal: Client };

/** Ensures the workflows as a worker does until the test ends. Returns its log lines so far. */
const startEnsuring = (t: ExecutionContext, given: Given): readonly z.output<typeof logLine>[] => {
  const lines: z.output<typeof logLine>[] = [];
  const write = (line: string) => lines.push(logLine.parse(JSON.parse(line)));
  const shutdown = new AbortController();
  const running = ensureWorkflows(
    {
      deployment: DEPLOYMENT,
      plantingOrderIntervalMs: HOUR_MS,
      logger: pino({ level: "debug" }, { write }),
      ...given,
    },
    shutdown.signal,
  );
  t.teardown(() => {
    shutdown.abort();
    return running;
  });
  return lines;
};

const describe = async ({ schedule }: Client, scheduleId: string) => {
  try {
    return await schedule.getHandle(scheduleId).describe();
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) {
      return null;
    }
    throw error;
  }
};

const isRunning = async (temporal: Client, workflowId: string): Promise<boolean> =>
  (await readStatus(temporal, workflowId)) === "RUNNING";

test("perpetual workflows that were terminated are started again, and each run has a time limit", async (t) => {
  const { client: temporal } = await openNamespace(t);
  const ids = PERPETUAL_KINDS.map((kind) => inDeployment(DEPLOYMENT, kind));
  startEnsuring(t, { temporal, checkIntervalMs: 200 });
  for (const workflowId of ids) {
    await eventually(() => isRunning(temporal, workflowId));
    await temporal.workflow.getHandle(workflowId).terminate("the test");
  }

  for (const workflowId of ids) {
    await eventually(() => isRunning(temporal, workflowId));
    const { raw } = await temporal.workflow.getHandle(workflowId).describe();
    t.is(Number(raw.executionConfig?.workflowRunTimeout?.seconds), 600);
  }
});

test("a deleted schedule is created again, and the others are not changed", async (t) => {
  const { client: temporal } = await openNamespace(t);
  const lines = startEnsuring(t, { temporal, checkIntervalMs: 500 });
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
  // On a busy machine, calls to Temporal may take longer than their timeout.
  const unexpected = lines.filter(
    ({ err }) => !/DEADLINE_EXCEEDED|CANCELLED/u.test(err?.message ?? ""),
  );
  t.deepEqual(unexpected, []);
});

test("a worker applies its settings to existing schedules when it starts", async (t) => {
  const { client: temporal } = await openNamespace(t);
  await temporal.schedule.create({
    scheduleId: ORDER_CREATION,
    spec: { intervals: [{ every: 2 * HOUR_MS }] },
    policies: { catchupWindow: "1 year" },
    action: { type: "startWorkflow", workflowType: "any", taskQueue: "test" },
  });
  startEnsuring(t, { temporal });

  await eventually(async () => {
    const description = await describe(temporal, ORDER_CREATION);
    return description?.spec.intervals?.[0]?.every === HOUR_MS;
  });
  const description = await describe(temporal, ORDER_CREATION);
  t.like(description?.action, {
    workflowType: "plantingOrderCreation",
    taskQueue: "test/background",
  });
  t.like(description?.policies, { catchupWindow: HOUR_MS });
});

test("each run of a periodic workflow has a time limit, and a missed order creation is made up for until the next one", async (t) => {
  for (const [intervalMs, timeoutMs] of [
    [MINUTE_MS, HOUR_MS],
    [DAY_MS, DAY_MS - HOUR_MS],
  ] as const) {
    const { client: temporal } = await openNamespace(t);
    startEnsuring(t, { temporal, plantingOrderIntervalMs: intervalMs });
    for (const [scheduleId, workflowRunTimeout] of [
      [RECONCILIATION, 23 * HOUR_MS],
      ["test/retention-nightly", 23 * HOUR_MS],
      [ORDER_CREATION, timeoutMs],
    ] as const) {
      await eventually(async () => (await describe(temporal, scheduleId)) !== null);
      t.like((await describe(temporal, scheduleId))?.action, { workflowRunTimeout });
    }
    const { policies } = (await describe(temporal, ORDER_CREATION)) ?? {};
    t.like(policies, { catchupWindow: intervalMs });
  }
});

test("new trees are ordered as soon as there is a schedule, even if the next run is in a day", async (t) => {
  const { client: temporal } = await openNamespace(t);
  startEnsuring(t, { temporal, plantingOrderIntervalMs: DAY_MS });
  const countRuns = async (): Promise<number | undefined> =>
    (await describe(temporal, ORDER_CREATION))?.info.numActionsTaken;
  await eventually(async () => (await countRuns()) === 1);
  t.is(await countRuns(), 1);
});

test("while Temporal cannot be used, repeated failures log one warning", async (t) => {
  // An unknown namespace fails immediately; with a server that is down, each attempt waits for its timeout.
  const lines = startEnsuring(t, {
    temporal: openTemporalClient({ address: TEMPORAL_ADDRESS, namespace: "nowhere" }),
    retryIntervalMs: 10,
  });

  await eventually(() => lines.length >= 3);

  const levels = lines.slice(0, 3).map(({ level }) => level);
  t.deepEqual(levels, [WARN, DEBUG, DEBUG]);
});
