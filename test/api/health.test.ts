import { createHealthChecks } from "../../api/health/createHealthChecks.ts";
import { openPool } from "../../db/pool.ts";
import { openTemporalClient } from "../../program/temporalClient.ts";
import { testWithDatabase } from "../support/database.ts";
import { TEMPORAL_ADDRESS } from "../support/programs.ts";
import { startRelay } from "../support/relay.ts";
import { rawRequest } from "./rawRequest.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const reachableTemporal = () => openTemporalClient({ address: TEMPORAL_ADDRESS });

/** A client for a port that nothing listens on. */
const unreachableTemporal = () => openTemporalClient({ address: "127.0.0.1:1" });

test("a process is alive without its database and Temporal", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url);
  t.teardown(() => db.end());
  const { call } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: createHealthChecks({ db, temporal: unreachableTemporal() }),
  });
  relay.cut();

  const { status, body } = await call("GET", "/healthz");

  t.is(status, 200);
  t.deepEqual(body, { status: "ok" });
});

test("the service is ready if the database and Temporal respond", async (t) => {
  const { call } = await startStandaloneApi(t, { db: t.context.db });

  const { status, body } = await call("GET", "/readyz");

  t.is(status, 200);
  t.deepEqual(body, { status: "ok", database: "ok", temporal: "ok" });
});

test("the service is ready without Temporal and reports it as unreachable", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, {
    db,
    checks: createHealthChecks({ db, temporal: unreachableTemporal() }),
  });

  const { status, body } = await call("GET", "/readyz");

  t.is(status, 200);
  t.deepEqual(body, { status: "ok", database: "ok", temporal: "unreachable" });
});

test("the service is not ready without its database", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url);
  t.teardown(() => db.end());
  const { call } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: createHealthChecks({ db, temporal: reachableTemporal() }),
  });
  t.is((await call("GET", "/readyz")).status, 200);

  relay.cut();
  const { status, body } = await call("GET", "/readyz");

  t.is(status, 503);
  t.deepEqual(body, { status: "unavailable", database: "unreachable", temporal: "ok" });
});

test("concurrent readiness requests share one check", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url);
  t.teardown(() => db.end());
  const { url } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: createHealthChecks({ db, temporal: reachableTemporal() }),
  });

  const connectionsBefore = relay.connectionCount();

  // Pipelined in one packet, all requests start before the first check can finish. No connection is idle, so every check
  // opens one.
  const request = "GET /readyz HTTP/1.1\r\nHost: x\r\n";
  const received = await rawRequest(
    url,
    `${`${request}\r\n`.repeat(9)}${request}Connection: close\r\n\r\n`,
  );

  t.is(received.match(/HTTP\/1\.1 200 OK\r/gu)?.length, 10, received);
  t.is(relay.connectionCount() - connectionsBefore, 1);
});
