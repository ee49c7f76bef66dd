import { once } from "node:events";
import type { ExecutionContext } from "ava";
import { backgroundQueue, interactiveQueue } from "../../runtime/temporalNames.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { findFreePort } from "../../runtime/server/ports.ts";
import { getDeploymentName } from "../../modules/billing/holdUsage.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import {
  eventually,
  isPolled,
  openNamespace,
  startProgram,
  TEMPORAL_ADDRESS,
} from "../support/programs.ts";
import { startRelay } from "../support/relay.ts";
import { Connection } from "@temporalio/client";
import { msToTs } from "@temporalio/common/lib/time.js";
import { sumLedgerUnits } from "../support/accountSums.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";

const base = testWithDatabase();
const test = base.serial;

const startWorker = (t: DatabaseTest, settings: Readonly<Record<string, string>>) =>
  startProgram(t, "worker/main.ts", {
    DATABASE_URL: t.context.databaseUrl,
    LOG_LEVEL: "fatal",
    ...settings,
  });

type Program = Awaited<ReturnType<typeof startProgram>>;

const stopsGracefully = async (
  t: ExecutionContext,
  { process: worker }: Program,
): Promise<void> => {
  const exit = once(worker, "exit");
  worker.kill("SIGTERM");
  t.deepEqual(await exit, [0, null]);
};

test("a worker that is stopped while connecting to Temporal stops gracefully", async (t) => {
  const { namespace } = await openNamespace(t);
  const { url, hang, resume, connectionCount } = await startRelay(t, `tcp://${TEMPORAL_ADDRESS}`);
  hang();
  const worker = await startWorker(t, {
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_ADDRESS: new URL(url).host,
  });
  await eventually(() => connectionCount() > 0);

  // Every connection waits until the worker has received a signal to stop.
  const stopped = stopsGracefully(t, worker);
  resume();
  await stopped;
});

test("a worker that is stopped while Temporal is down stops gracefully", async (t) => {
  const worker = await startWorker(t, {
    TEMPORAL_ADDRESS: `127.0.0.1:${await findFreePort()}`,
    LOG_LEVEL: "warn",
  });
  await eventually(() => worker.lines.some((line) => line.includes("cannot connect to Temporal")));

  await stopsGracefully(t, worker);
});

test("a worker that is stopped as soon as it is ready, or while polling its queues, stops gracefully", async (t) => {
  const { namespace, client } = await openNamespace(t);
  await stopsGracefully(t, await startWorker(t, { TEMPORAL_NAMESPACE: namespace }));
  const worker = await startWorker(t, { TEMPORAL_NAMESPACE: namespace });
  const deployment = await getDeploymentName({ db: t.context.db, clock: systemClock });
  for (const taskQueue of [backgroundQueue(deployment), interactiveQueue(deployment)]) {
    await eventually(() => isPolled(client, taskQueue));
  }

  await stopsGracefully(t, worker);
});

/** Less than the 30 s after which orchestrators kill a process. */
const STOPS_WITHIN_MS = 25_000;

for (const [state, interrupt] of [
  ["hang", "hang"],
  ["are gone", "cut"],
] as const) {
  // These two wait most of the time. The others are serial, so that nothing else delays what has a limit.
  base(`a worker ends within 25 s while the database and Temporal ${state}`, async (t) => {
    const { namespace, client } = await openNamespace(t);
    const database = await startRelay(t, t.context.databaseUrl);
    const temporal = await startRelay(t, `tcp://${TEMPORAL_ADDRESS}`);
    const { process: worker } = await startWorker(t, {
      DATABASE_URL: database.url,
      TEMPORAL_NAMESPACE: namespace,
      TEMPORAL_ADDRESS: new URL(temporal.url).host,
      LOG_LEVEL: "silent",
    });
    const deployment = await getDeploymentName({ db: t.context.db, clock: systemClock });
    await eventually(() => isPolled(client, backgroundQueue(deployment)));

    database[interrupt]();
    temporal[interrupt]();
    const exit = once(worker, "exit");
    const stoppedAtMs = performance.now();
    worker.kill("SIGTERM");
    // What does not respond may not be closed in order, so the code may be 1.
    const [, signal] = await exit;

    t.is(signal, null);
    t.true(performance.now() - stoppedAtMs < STOPS_WITHIN_MS);
  });
}

test("a worker without its database is alive, not ready, and reports its last metrics", async (t) => {
  const { namespace } = await openNamespace(t);
  const relay = await startRelay(t, t.context.databaseUrl);
  const { urls } = await startWorker(t, {
    DATABASE_URL: relay.url,
    TEMPORAL_NAMESPACE: namespace,
    WORKER_METRICS_PORT: "0",
    LOG_LEVEL: "silent",
  });
  const read = async (path: string) => {
    const response = await fetch(`${urls["metrics"]}${path}`);
    return { status: response.status, text: await response.text() };
  };
  await eventually(async () => (await read("/readyz")).status === 200);
  t.deepEqual(JSON.parse((await read("/readyz")).text), {
    status: "ok",
    database: "ok",
    clock: "ok",
    temporal: "ok",
  });
  // A scrape does not wait long for the database, so on a busy machine the first ones are without its metrics.
  await eventually(async () => /^impact_usage_held 0$/mu.test((await read("/metrics")).text));
  t.regex((await read("/metrics")).text, /^impact_database_up 1$/mu);

  relay.cut();

  await eventually(async () => (await read("/readyz")).status === 503);
  const after = await read("/metrics");
  t.is(after.status, 200);
  t.regex(after.text, /^impact_database_up 0$/mu);
  t.regex(after.text, /^impact_temporal_up 1$/mu);
  t.regex(after.text, /^impact_usage_held 0$/mu);
  t.is((await read("/healthz")).status, 200);
  t.is((await read("/")).status, 404);
});

test("a worker waits for its namespace, which it logs, and works when it appears", async (t) => {
  const { db } = t.context;
  const namespace = `test-${crypto.randomUUID()}`;
  const program = await startWorker(t, {
    TEMPORAL_NAMESPACE: namespace,
    WORKER_METRICS_PORT: "0",
    LOG_LEVEL: "warn",
  });
  const waiting = (): readonly string[] =>
    program.lines.filter((line) => line.includes(`Namespace ${namespace} was not found`));
  await eventually(() => waiting().length > 0);
  t.is((await fetch(`${program.urls["metrics"]}/readyz`)).status, 503);

  const { id } = await createTestOrganization(db);
  await registerFor(db, id, { mode: "test", count: 3 });
  const connection = await Connection.connect({ address: TEMPORAL_ADDRESS });
  t.teardown(() => connection.close());
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs("1 day"),
  });

  await eventually(
    async () => (await sumLedgerUnits(db, { accountId: id, mode: "test", kind: "tree" })) === 3,
  );
  t.true(waiting().length <= 2, "once a minute for each task queue");
  t.is(program.process.exitCode, null);
});
