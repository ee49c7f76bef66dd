import { once } from "node:events";
import { Agent } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import { findFreePort } from "../../runtime/server/probePort.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, startProgram } from "../support/programs.ts";
import {
  passesOn,
  reportsLostResponses,
  reportsOutage,
  routesByCell,
  startCells,
  SECRETS,
  streamsLists,
} from "./proxyCases.ts";
import { HAPROXY, MOVED_KEY, MOVED_SLUG, startHaproxy } from "./startHaproxy.ts";
import { startProxy } from "./startProxy.ts";
import type { ProxyKind } from "./startProxy.ts";

/* Runs HAProxy with deploy/haproxy/haproxy.cfg in front of both interfaces. */

const test = testWithDatabase();

test("HAProxy passes on what both interfaces need", async (t) => {
  const { logged } = await passesOn(t, HAPROXY);
  t.notRegex(logged(), SECRETS);
});

test("HAProxy returns its own errors in the form of the interface", (t) =>
  reportsOutage(t, HAPROXY, 503));

test("HAProxy does not report a request without a response as unexecuted", (t) =>
  reportsLostResponses(t, HAPROXY));

test("HAProxy does not collect lists", (t) => streamsLists(t, HAPROXY));

test("HAProxy sends each request to its cell", (t) => routesByCell(t, HAPROXY));

test("HAProxy sends the keys and pages of a moved account to its new cell", async (t) => {
  const cellOf = await startCells(t, HAPROXY);
  const headers = { Authorization: MOVED_KEY };
  t.is(await cellOf("standalone", "/plant/trees", { headers }), "eu1");
  t.is(await cellOf("store", "/app/api/plant", { headers: { api_key: MOVED_KEY } }), "eu1");
  for (const path of ["", ".json", "/badge.svg"]) {
    t.is(await cellOf("standalone", `/dashboard/${MOVED_SLUG}${path}`), "eu1");
  }
  t.is(await cellOf("standalone", "/dashboard/other-shop-k3v9m2qd"), "default");
});

test("HAProxy rejects requests beyond the limit of an address in the form of the interface", async (t) => {
  const gone = `http://127.0.0.1:${await findFreePort()}`;
  const slow: ProxyKind = {
    ...HAPROXY,
    replacements: (place) => ({
      ...HAPROXY.replacements(place),
      // No request is allowed again while the test runs.
      "http_req_rate(2s)": "http_req_rate(1h)",
      "sc0_http_req_rate gt 400": "sc0_http_req_rate gt 5",
    }),
  };
  const { call } = await startProxy(t, slow, { standalone: gone, store: gone });
  const error = "too many requests from this address";
  for (const [name, body] of [
    ["standalone", { error }],
    ["store", { error, code: "OVERLOADED" }],
  ] as const) {
    for (let sent = 0; sent < 5; sent += 1) {
      await call(name, "/");
    }
    const rejected = await call(name, "/");
    t.is(rejected.status, 429);
    t.is(rejected.headers["retry-after"], "1");
    t.is(rejected.headers["strict-transport-security"], "max-age=31536000");
    t.deepEqual(JSON.parse(rejected.body), body);
  }
});

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
    DRAIN_SECONDS: "5",
  });
  return {
    api,
    stop: async (): Promise<void> => {
      const exit = once(api, "exit");
      api.kill("SIGTERM");
      t.deepEqual(await exit, [0, null]);
    },
  };
};

const CLIENTS = 8;
/** Between a client's requests while a process starts. Without it, the clients take the CPU time that the start needs. */
const PAUSE_MS = 50;

/** Two APIs behind HAProxy, and clients that register trees until they are stopped. No client repeats a request. */
const startClients = async (t: ExecutionContext<DatabaseContext>) => {
  const { db } = t.context;
  const ports = [await choosePorts(), await choosePorts()] as const;
  const apis = [
    { ports: ports[0], running: await startApi(t, ports[0]) },
    { ports: ports[1], running: await startApi(t, ports[1]) },
  ] as const;
  const proxy = await startHaproxy(t, ports, {
    "acl is_exempt src 203.0.113.0/24": "acl is_exempt src 127.0.0.1",
  });
  const { call, logged } = proxy;
  const { apiKeyProd, id } = await createTestOrganization(db);
  const agent = new Agent({ keepAlive: true });
  const ended = new AbortController();
  t.teardown(() => {
    ended.abort();
    agent.destroy();
  });
  const failures: unknown[] = [];
  let succeeded = 0;
  let isStarting = false;
  const sendRequests = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      if (isStarting) {
        await delay(PAUSE_MS);
      }
      try {
        const { status, body } = await call("standalone", "/plant/trees", {
          headers: { Authorization: apiKeyProd },
          body: '{"count":1}',
          agent,
        });
        if (status === 200) {
          succeeded += 1;
        } else {
          failures.push(`${status} ${body}`);
        }
      } catch (lost) {
        failures.push(lost);
      }
    }
  };
  const clients = Array.from({ length: CLIENTS }, sendRequests);
  return {
    proxy,
    apis,
    /** Starts an API on the ports of one that was stopped, and waits until the proxy uses it. */
    replace: async (server: "api1" | "api2", place: Ports): Promise<void> => {
      const starts = proxy.countStarts(server);
      isStarting = true;
      await startApi(t, place);
      await eventually(() => proxy.countStarts(server) > starts);
      isStarting = false;
    },
    /** Stops the clients, and checks that each request has succeeded and is recorded once. */
    requireSuccess: async (): Promise<void> => {
      ended.abort();
      await Promise.all(clients);
      const changes = logged()
        .split("\n")
        .filter((line) => line.includes("Server impact_standalone"));
      t.deepEqual(failures, [], changes.join("\n"));
      t.is((await readAccountSums(db, id)).registrations, succeeded);
    },
  };
};

// Serial, because the clients of both tests take much CPU time.
test.serial("a rolling restart behind HAProxy loses no request", async (t) => {
  const { proxy, apis, replace, requireSuccess } = await startClients(t);
  const { call, logged } = proxy;

  for (const [server, { ports, running }] of [
    ["api1", apis[0]],
    ["api2", apis[1]],
  ] as const) {
    await running.stop();
    await replace(server, ports);
  }

  await requireSuccess();
  await call("standalone", "/healthz?customer=ann");
  await eventually(() => logged().includes('"GET /healthz" 200'));
  t.notRegex(logged(), SECRETS);
});

test.serial(
  "behind HAProxy, no request fails while the only process stalls for three seconds",
  async (t) => {
    const { apis, requireSuccess } = await startClients(t);
    const [{ running: stopped }, { running: left }] = apis;
    await stopped.stop();

    left.api.kill("SIGSTOP");
    // Longer than a probe may take, whenever it is sent.
    await delay(3500);
    left.api.kill("SIGCONT");

    await requireSuccess();
  },
);
