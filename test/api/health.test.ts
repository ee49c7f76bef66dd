import type { DatabasePool } from "slonik";
import { readServerStatus } from "../../db/connections/serverStatus.ts";
import { isDeepStrictEqual } from "node:util";
import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { systemClock } from "../../runtime/clock.ts";
import { openTemporalClient } from "../../runtime/temporalClient.ts";
import { watchHealth } from "../../runtime/server/watchHealth.ts";
import type { HealthWatch } from "../../runtime/server/watchHealth.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { eventually, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { READY } from "../support/readiness.ts";
import { startRelay } from "../support/relay.ts";
import { unreachableTemporal } from "../support/temporalOnDemand.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";
import type { Call } from "./startStandaloneApi.ts";

const test = testWithDatabase();

/** Watches until the test ends. */
const watch = async (
  t: ExecutionContext<DatabaseContext>,
  {
    db = t.context.db,
    ...options
  }: Partial<Parameters<typeof watchHealth>[0]> & { readonly db?: DatabasePool },
): Promise<HealthWatch> => {
  const health = await watchHealth({
    readDatabaseTime: async () => (await readServerStatus(db)).now,
    temporal: openTemporalClient({ address: TEMPORAL_ADDRESS }),
    clock: systemClock,
    logger: pino({ level: "silent" }),
    needsTemporal: false,
    ...options,
  });
  t.teardown(health.end);
  return health;
};

/** Polls as a probe does, because a check may exceed its two seconds on a busy machine. */
const pollReadiness = async (
  call: Call,
  status: number,
  expected: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, unknown>>> => {
  let response = await call("GET", "/readyz");
  await eventually(async () => {
    response = await call("GET", "/readyz");
    return response.status === status && isDeepStrictEqual(response.body, expected);
  });
  return response.body;
};

test("the service is ready if the database and Temporal respond", async (t) => {
  const health = await watch(t, {});
  const { call } = await startStandaloneApi(t, { db: t.context.db, readReadiness: health.read });

  t.deepEqual(await pollReadiness(call, 200, READY), READY);
});

test("the service is ready without Temporal and reports it as unreachable; a worker is not", async (t) => {
  const { db } = t.context;
  const temporal = await unreachableTemporal();
  const health = await watch(t, { temporal });
  const worker = await watch(t, { temporal, needsTemporal: true });
  const { call } = await startStandaloneApi(t, { db, readReadiness: health.read });

  const ready = { ...READY, temporal: "unreachable" };
  t.deepEqual(await pollReadiness(call, 200, ready), ready);
  t.is(worker.read().status, "unavailable");
});

test("a process whose database is gone is alive and not ready", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openTestPool(t, relay.url, 1);
  const health = await watch(t, { db });
  const { call } = await startStandaloneApi(t, { db: t.context.db, readReadiness: health.read });
  await pollReadiness(call, 200, READY);

  relay.cut();

  const unavailable = {
    ...READY,
    status: "unavailable",
    database: "unreachable",
    clock: "unknown",
  };
  t.deepEqual(await pollReadiness(call, 503, unavailable), unavailable);
  t.like(await call("GET", "/healthz"), { status: 200, body: { status: "ok" } });
});

test("readiness does not wait for a check that hangs", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openTestPool(t, relay.url, 1);
  const health = await watch(t, { db });
  const { call } = await startStandaloneApi(t, { db: t.context.db, readReadiness: health.read });
  await pollReadiness(call, 200, READY);

  relay.freeze();

  // The next check gets no response. Until it fails, the state of the last one is reported.
  t.is(health.read().status, "ok");
  await eventually(async () => (await call("GET", "/readyz")).status === 503);
  // Otherwise closing the pool would wait for what it has sent.
  relay.cut();
});

test("a process that is stopping is alive and not ready", async (t) => {
  const health = await watch(t, {});
  const { call } = await startStandaloneApi(t, { db: t.context.db, readReadiness: health.read });

  health.startStopping();

  const { status, body } = await call("GET", "/readyz");
  t.is(status, 503);
  t.is(body["status"], "stopping");
  t.is((await call("GET", "/healthz")).status, 200);
});

test("the service is not ready while its clock is off, and logs each change once", async (t) => {
  const logged: string[] = [];
  let aheadMs = 2 * 60 * 1000;
  let checks = 0;
  const health = await watch(t, {
    clock: {
      now: () => {
        checks += 1;
        return new Date(Date.now() + aheadMs);
      },
    },
    logger: pino({ level: "info" }, { write: (line) => logged.push(line) }),
  });
  const { call } = await startStandaloneApi(t, { db: t.context.db, readReadiness: health.read });

  const off = { ...READY, status: "unavailable", clock: "off" };
  t.deepEqual(await pollReadiness(call, 503, off), off);
  await eventually(() => checks >= 3);
  t.is(logged.length, 1);
  t.regex(logged[0] ?? "", /clock differs from the database's by more than 2 s/u);

  aheadMs = 1000;
  t.deepEqual(await pollReadiness(call, 200, READY), READY);
  t.regex(logged[1] ?? "", /clock is right again/u);
});
