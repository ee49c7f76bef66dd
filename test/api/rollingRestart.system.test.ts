import { once } from "node:events";
import { Agent, request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { eventually, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

const CLIENTS = 8;
/** Between a client's requests while a process starts. Without it, the clients take the CPU time that the start needs. */
const PAUSE_MS = 50;
const PROBE_INTERVAL_MS = 50;

type Backend = { readonly url: string; readonly stop: () => Promise<unknown> };

const startBackend = async (t: ExecutionContext<DatabaseContext>): Promise<Backend> => {
  const { process: api, urls } = await startProgram(t, "api/main.ts", {
    DATABASE_URL: t.context.databaseUrl,
    // Forty probes, so that one of them notices also on a busy machine.
    DRAIN_SECONDS: "2",
  });
  return {
    url: urls["standalone"] ?? "",
    stop: () => {
      const exit = once(api, "exit");
      api.kill("SIGTERM");
      return exit;
    },
  };
};

/** Returns the status of a request. A connection that is lost is an error, and nothing is retried. */
const send = (
  agent: Agent,
  url: string,
  { key, body }: { readonly key?: string; readonly body?: string },
): Promise<number> =>
  new Promise((resolve, reject) => {
    request(
      url,
      {
        agent,
        method: body === undefined ? "GET" : "POST",
        headers: {
          ...(key === undefined ? {} : { Authorization: key }),
          ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        },
      },
      (response) => {
        response.resume().on("end", () => resolve(response.statusCode ?? 0));
      },
    )
      .on("error", reject)
      .end(body);
  });

test("behind a balancer that probes readiness, a rolling restart loses no request", async (t) => {
  const { apiKeyProd: key, id } = await createTestOrganization(t.context.db);
  const agent = new Agent({ keepAlive: true });
  const original = [await startBackend(t), await startBackend(t)];
  const backends = new Set(original);
  const ready = new Set<Backend>();
  const ended = new AbortController();
  t.teardown(() => {
    ended.abort();
    agent.destroy();
  });
  const probe = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      for (const backend of backends) {
        const status = await send(agent, `${backend.url}/readyz`, {}).catch(() => 0);
        ready[status === 200 ? "add" : "delete"](backend);
      }
      await delay(PROBE_INTERVAL_MS);
    }
  };
  const failures: unknown[] = [];
  let succeeded = 0;
  let isStarting = false;
  const sendRequests = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      if (isStarting) {
        await delay(PAUSE_MS);
      }
      const [first, second] = [...ready];
      const backend = succeeded % 2 === 0 ? first : (second ?? first);
      if (!backend) {
        throw new Error("No backend is ready.");
      }
      try {
        const status = await send(agent, `${backend.url}/plant/trees`, {
          key,
          body: '{"count":1}',
        });
        if (status === 200) {
          succeeded += 1;
        } else {
          failures.push(status);
        }
      } catch (error) {
        failures.push(error);
      }
    }
  };
  const probing = probe();
  await eventually(() => ready.size === 2);
  const clients = Array.from({ length: CLIENTS }, sendRequests);

  for (const backend of original) {
    isStarting = true;
    const replacement = await startBackend(t);
    backends.add(replacement);
    await eventually(() => ready.has(replacement));
    isStarting = false;
    t.deepEqual(await backend.stop(), [0, null]);
    backends.delete(backend);
    ready.delete(backend);
  }

  ended.abort();
  await Promise.all([...clients, probing]);
  t.deepEqual(failures, []);
  t.is((await readAccountSums(t.context.db, id)).registrations, succeeded);
});
