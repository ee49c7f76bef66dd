import { once } from "node:events";
import { Agent } from "node:https";
import type { ExecutionContext } from "ava";
import { findFreePort } from "../../program/probePort.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, startProgram } from "../support/programs.ts";
import { startHaproxy } from "../support/startHaproxy.ts";

/* Runs HAProxy with deploy/haproxy/haproxy.cfg in front of two API processes. */

const test = testWithDatabase();

type Ports = { readonly standalone: number; readonly store: number };

const choosePorts = async (): Promise<Ports> => ({
  standalone: await findFreePort(),
  store: await findFreePort(),
});

/** Starts an API on these ports and returns a function that stops it as an orchestrator does. */
const startApi = async (t: ExecutionContext<DatabaseContext>, { standalone, store }: Ports) => {
  const { process: api } = await startProgram(t, "api/main.ts", {
    DATABASE_URL: t.context.databaseUrl,
    PORT: String(standalone),
    STORE_PORT: String(store),
    TRUSTED_PROXIES: "1",
    // Probes come every 0.2 s.
    DRAIN_SECONDS: "3",
  });
  return {
    stop: async (): Promise<void> => {
      const exit = once(api, "exit");
      api.kill("SIGTERM");
      t.deepEqual(await exit, [0, null]);
    },
  };
};

const CLIENTS = 8;

test("HAProxy passes on what both interfaces need, and a rolling restart behind it loses no request", async (t) => {
  const { db } = t.context;
  const { apiKeyTest } = await createTestOrganization(db);
  const ports = [await choosePorts(), await choosePorts()] as const;
  const proxy = await startHaproxy(ports, {
    "inter 1s": "inter 200ms",
    "acl is_exempt src 203.0.113.0/24": "acl is_exempt src 127.0.0.1",
  });
  t.teardown(proxy.stop);
  const { call, plainUrl, readLog, countStarts } = proxy;

  const error = "the service is temporarily unavailable, try again";
  for (const [name, body] of [
    ["standalone", { error }],
    ["store", { error, code: "OVERLOADED" }],
  ] as const) {
    const unavailable = await call(name, "/");
    t.is(unavailable.status, 503);
    t.is(unavailable.headers["retry-after"], "1");
    t.is(unavailable.headers["strict-transport-security"], "max-age=31536000");
    t.deepEqual(JSON.parse(unavailable.body), body);
  }

  const apis = [
    { ports: ports[0], api: await startApi(t, ports[0]) },
    { ports: ports[1], api: await startApi(t, ports[1]) },
  ] as const;
  await eventually(async () => (await call("standalone", "/readyz")).status === 200);
  await eventually(async () => (await call("store", "/readyz")).status === 200);

  const key = { Authorization: apiKeyTest };
  const planted = await call("standalone", "/plant/trees", { headers: key, body: '{"count":2}' });
  t.is(planted.status, 200);
  t.is(planted.headers["strict-transport-security"], "max-age=31536000");
  t.is(planted.headers["cache-control"], "no-store");
  const store = await createTestStore(db);
  const { api_key: storeKey = "", shop_name: shopName = "" } = store.test;
  const storeHeaders = { api_key: storeKey, shop_name: shopName };
  const verified = await call("store", "/app/api/verify?customer=ann", { headers: storeHeaders });
  t.is(verified.status, 200);
  t.notRegex(readLog(), /customer|TEST-/u);
  const plain = await fetch(`${plainUrl}/plant/trees`, { headers: key, redirect: "manual" });
  t.is(plain.status, 403);
  t.deepEqual(await plain.json(), { error: "use https" });
  const page = await fetch(`${plainUrl}/dashboard/x`, { redirect: "manual" });
  t.is(page.status, 301);
  t.regex(page.headers.get("Location") ?? "", /^https:/u);

  const { apiKeyProd, id } = await createTestOrganization(db);
  const agent = new Agent({ keepAlive: true });
  const ended = new AbortController();
  t.teardown(() => {
    ended.abort();
    agent.destroy();
  });
  const failures: unknown[] = [];
  let succeeded = 0;
  const sendRequests = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      try {
        const { status } = await call("standalone", "/plant/trees", {
          headers: { Authorization: apiKeyProd },
          body: '{"count":1}',
          agent,
        });
        if (status === 200) {
          succeeded += 1;
        } else {
          failures.push(status);
        }
      } catch (lost) {
        failures.push(lost);
      }
    }
  };
  const clients = Array.from({ length: CLIENTS }, sendRequests);
  for (const [server, { ports: own, api }] of [
    ["api1", apis[0]],
    ["api2", apis[1]],
  ] as const) {
    const starts = countStarts(server);
    await api.stop();
    await startApi(t, own);
    await eventually(() => countStarts(server) > starts);
  }
  ended.abort();
  await Promise.all(clients);

  t.deepEqual(failures, []);
  t.is((await readAccountSums(db, id)).registrations, succeeded);
});
