import { Writable } from "node:stream";
import { ScheduleNotFoundError } from "@temporalio/client";
import type { Client, ScheduleDescription } from "@temporalio/client";
import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { Registry } from "prom-client";
import { z } from "zod";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../runtime/durations.rules.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import { openTemporalClient } from "../../runtime/temporalClient.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { createStripeClient } from "../../modules/billing/stripe/createStripeClient.ts";
import { guardUsage, holdUsage, resumeUsage } from "../../modules/billing/holdUsage.ts";
import { ensureWorkflows } from "../../worker/ensureWorkflows.ts";
import { addDatabaseMetrics } from "../../worker/addDatabaseMetrics.ts";
import { prepareProcessor } from "../../worker/prepareProcessor.ts";
import { createRepeatedLog } from "../../worker/repeatedCalls.ts";
import { watchHold } from "../../worker/watchHold.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { eventually, openNamespace, TEMPORAL_ADDRESS } from "../support/programs.ts";

const test = testWithDatabase();

test("the worker fails when a retry finds a meter with another aggregation", async (t) => {
  const double = await startStripeDouble();
  t.teardown(double.close);
  const stripe = { apiBase: double.url, secretKey: double.secretKey };
  await createStripeClient(stripe).stripe.billing.meters.create({
    display_name: "Trees",
    event_name: "impact_tree_planted",
    default_aggregation: { formula: "last" },
  });
  double.control.addFault({
    kind: "server_error",
    method: "GET",
    path: "/v1/billing/meters",
    times: 3,
  });
  const billing = createBilling({ db: t.context.db, stripe: connectStripe(stripe) });
  const shutdown = new AbortController();

  const { failed } = await prepareProcessor(
    { billing, logger: pino({ level: "silent" }), retryIntervalMs: 10 },
    shutdown.signal,
  );

  await t.throwsAsync(failed, {
    instanceOf: StartupError,
    message: /aggregates by last, not sum/u,
  });
});

test("a hold is a metric, and a worker logs it with the next command until it ends", async (t) => {
  const { db } = t.context;
  const clock = systemClock;
  const lines: string[] = [];
  const logger = pino(
    new Writable({
      write: (chunk: Buffer, _, done) => {
        lines.push(chunk.toString());
        done();
      },
    }),
  );
  const registry = new Registry();
  const refreshMetrics = addDatabaseMetrics(registry, { db, clock, monotonicMs: () => 0 });
  const readMetric = async (): Promise<string> => {
    await refreshMetrics();
    return registry.getSingleMetricAsString("impact_usage_held");
  };
  const watchOnce = async (): Promise<void> => {
    const stop = new AbortController();
    const { ended } = await watchHold({ db, clock, logger }, stop.signal);
    stop.abort();
    await ended;
  };
  await guardUsage({ db, clock });
  await watchOnce();
  t.regex(await readMetric(), /^impact_usage_held 0$/mu);
  t.deepEqual(lines, []);

  await holdUsage({ db, clock, actor: SERVICE }, { reason: "failover drill", by: "ada" });
  await watchOnce();

  t.regex(await readMetric(), /^impact_usage_held 1$/mu);
  t.is(lines.length, 1);
  t.regex(
    lines.join(""),
    /"level":50.*usage is held by ada: failover drill\. .*impact usage resume/u,
  );
  await resumeUsage({ db, clock, actor: SERVICE });
  await watchOnce();
  t.regex(await readMetric(), /^impact_usage_held 0$/mu);
  t.is(lines.length, 1);
});

const RECONCILIATION = "test/reconciliation-nightly";
const ORDER_CREATION = "test/planting-order-creation-periodic";

const logLine = z.object({ level: z.int(), err: z.object({ message: z.string() }) });
const { debug: DEBUG, warn: WARN } = pino.levels.values;

/** Ensures the schedules as a worker does until the test ends. Returns its log lines so far, which are errors. */
const startEnsuring = (
  t: ExecutionContext<DatabaseContext>,
  given: {
    temporal: Client;
    plantingOrderIntervalMs?: number;
    checkIntervalMs?: number;
    retryIntervalMs?: number;
  },
): readonly z.output<typeof logLine>[] => {
  const lines: z.output<typeof logLine>[] = [];
  const shutdown = new AbortController();
  const logger = pino(
    { level: "debug" },
    { write: (line) => lines.push(logLine.parse(JSON.parse(line))) },
  );
  const running = ensureWorkflows(
    {
      db: t.context.db,
      clock: systemClock,
      deployment: "test",
      plantingOrderIntervalMs: HOUR_MS,
      logger,
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
  const unexpected = lines.filter(({ err }) => !/DEADLINE_EXCEEDED|CANCELLED/u.test(err.message));
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

  t.deepEqual(
    lines.slice(0, 3).map(({ level }) => level),
    [WARN, DEBUG, DEBUG],
  );
});

test("an organization's usage that is rejected for one reason again and again is one line", (t) => {
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line) => void lines.push(line) });
  const log = createRepeatedLog(logger, "usage was rejected");

  for (let second = 0; second < 1000; second += 1) {
    log("one late", { accountId: "one", cause: "late" });
  }
  log("one refused", { accountId: "one", cause: "refused" });
  log("other late", { accountId: "other", cause: "late" });

  t.deepEqual(
    lines.map((line) => z.looseObject({ accountId: z.string() }).parse(JSON.parse(line)).accountId),
    ["one", "one", "other"],
  );
});
