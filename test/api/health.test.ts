import { isDeepStrictEqual } from "node:util";
import { pino } from "pino";
import { systemClock } from "../../domain/clock.ts";
import { createHealthChecks } from "../../api/health/createHealthChecks.ts";
import { openPool } from "../../db/pool.ts";
import { openTemporalClient } from "../../program/temporalClient.ts";
import { testWithDatabase } from "../support/database.ts";
import { eventually, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { startRelay } from "../support/relay.ts";
import { rawRequest } from "./rawRequest.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";
import type { Call } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const healthy = { clock: systemClock, logger: pino({ level: "silent" }) };

const reachableTemporal = () => openTemporalClient({ address: TEMPORAL_ADDRESS });

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

/** A client for a port that nothing listens on. */
const unreachableTemporal = () => openTemporalClient({ address: "127.0.0.1:1" });

test("a process is alive without its database and Temporal", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url);
  t.teardown(() => db.end());
  const { call } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: createHealthChecks({ db, temporal: unreachableTemporal(), ...healthy }),
  });
  relay.cut();

  const { status, body } = await call("GET", "/healthz");

  t.is(status, 200);
  t.deepEqual(body, { status: "ok" });
});

test("the service is ready if the database and Temporal respond", async (t) => {
  const { call } = await startStandaloneApi(t, { db: t.context.db });

  const ready = { status: "ok", database: "ok", clock: "ok", temporal: "ok" };
  t.deepEqual(await pollReadiness(call, 200, ready), ready);
});

test("the service is ready without Temporal and reports it as unreachable", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, {
    db,
    checks: createHealthChecks({ db, temporal: unreachableTemporal(), ...healthy }),
  });

  const ready = { status: "ok", database: "ok", clock: "ok", temporal: "unreachable" };
  t.deepEqual(await pollReadiness(call, 200, ready), ready);
});

test("the service is not ready without its database", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url);
  t.teardown(() => db.end());
  const { call } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: createHealthChecks({ db, temporal: reachableTemporal(), ...healthy }),
  });
  await pollReadiness(call, 200, { status: "ok", database: "ok", clock: "ok", temporal: "ok" });

  relay.cut();

  t.is((await call("GET", "/readyz")).status, 503);
  const unavailable = {
    status: "unavailable",
    database: "unreachable",
    clock: "unknown",
    temporal: "ok",
  };
  t.deepEqual(await pollReadiness(call, 503, unavailable), unavailable);
});

test("the service is not ready while its clock is off", async (t) => {
  const { db } = t.context;
  const logged: string[] = [];
  let aheadMs = 2 * 60 * 1000;
  const { call } = await startStandaloneApi(t, {
    db,
    checks: createHealthChecks({
      db,
      temporal: reachableTemporal(),
      clock: { now: () => new Date(Date.now() + aheadMs) },
      logger: pino({ level: "error" }, { write: (line) => logged.push(line) }),
    }),
  });

  const off = { status: "unavailable", database: "ok", clock: "off", temporal: "ok" };
  t.deepEqual(await pollReadiness(call, 503, off), off);
  t.regex(logged[0] ?? "", /clock differs from the database's by more than 2 s/u);

  aheadMs = 1000;
  const ready = { status: "ok", database: "ok", clock: "ok", temporal: "ok" };
  t.deepEqual(await pollReadiness(call, 200, ready), ready);
});

test("concurrent readiness requests share one check", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url);
  t.teardown(() => db.end());
  const { url } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: createHealthChecks({ db, temporal: reachableTemporal(), ...healthy }),
  });

  const connectionsBefore = relay.connectionCount();

  // Pipelined in one packet, all requests start before the first check can finish. No connection is idle, so every check
  // opens one.
  const request = "GET /readyz HTTP/1.1\r\nHost: x\r\n";
  const received = await rawRequest(
    url,
    `${`${request}\r\n`.repeat(9)}${request}Connection: close\r\n\r\n`,
  );

  t.is(received.match(/HTTP\/1\.1 (?:200|503) /gu)?.length, 10, received);
  t.is(relay.connectionCount() - connectionsBefore, 1);
});
