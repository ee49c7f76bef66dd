import { once } from "node:events";
import { Agent } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, startProgram } from "../support/programs.ts";
import { choosePorts, startHaproxy } from "./startProxy.ts";
import type { Ports } from "./startProxy.ts";

const test = testWithDatabase().serial;

/** Starts an API on these ports and returns a function that stops it as an orchestrator does. */
const startApi = async (t: DatabaseTest, { standalone, store }: Ports) => {
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
const startClients = async (t: DatabaseTest) => {
  const { db } = t.context;
  const ports = [await choosePorts(), await choosePorts()] as const;
  const apis = [
    { ports: ports[0], running: await startApi(t, ports[0]) },
    { ports: ports[1], running: await startApi(t, ports[1]) },
  ] as const;
  const proxy = await startHaproxy(t, ports);
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
test("a rolling restart behind HAProxy loses no request", async (t) => {
  const { apis, replace, requireSuccess } = await startClients(t);

  for (const [server, { ports, running }] of [
    ["api1", apis[0]],
    ["api2", apis[1]],
  ] as const) {
    await running.stop();
    await replace(server, ports);
  }

  await requireSuccess();
});

test("behind HAProxy, no request fails while the only process stalls for three seconds", async (t) => {
  const { apis, requireSuccess } = await startClients(t);
  const [{ running: stopped }, { running: left }] = apis;
  await stopped.stop();

  left.api.kill("SIGSTOP");
  // Longer than a probe may take, whenever it is sent.
  await delay(3500);
  left.api.kill("SIGCONT");

  await requireSuccess();
});
