import { Agent } from "node:https";
import { once } from "node:events";
import { z } from "zod";
import { openPool } from "../db/pools/pool.ts";
import { sql } from "../db/sql.ts";
import { findFreePort } from "../runtime/server/probePort.ts";
import { startHaproxy } from "../test/deploy/startHaproxy.ts";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import type { Program, Services } from "./support/startServices.ts";
import { percentile } from "./support/statistics.ts";

const CLIENTS = 8;

type Ports = { readonly standalone: number; readonly store: number };

const choosePorts = async (): Promise<Ports> => ({
  standalone: await findFreePort(),
  store: await findFreePort(),
});

const countRegistrations = async (databaseUrl: string): Promise<number> => {
  const db = await openPool(databaseUrl, 1);
  try {
    return await db.oneFirst(sql.type(z.strictObject({ count: z.int() }))`
      SELECT count(*)::integer AS count FROM registration
    `);
  } finally {
    await db.end();
  }
};

const resultsOf = ({
  sent,
  failed,
  registered,
  restarts,
}: Readonly<Record<"sent" | "failed" | "registered" | "restarts", number>>): readonly Result[] => [
  {
    what: `failed of ${sent} requests during ${restarts} restarts of two APIs behind HAProxy`,
    measured: String(failed),
    baseline: "0",
    ratio: "",
    goal: "0",
    isReached: failed === 0,
  },
  {
    what: "registrations in the database, compared with successful requests",
    measured: String(registered),
    baseline: String(sent - failed),
    ratio: "",
    goal: "the same",
    isReached: registered === sent - failed,
  },
];

/**
 * Restarts two APIs behind HAProxy one after the other, with deploy/haproxy/haproxy.cfg and the default DRAIN_SECONDS,
 * while clients register trees, and counts the requests that fail. No client repeats a request.
 */
export const measureRestarts = async (
  services: Services,
  { requests, restarts }: { readonly requests: number; readonly restarts: number },
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("restarts");
  const [key = ""] = await createAccounts(databaseUrl, [crypto.randomUUID()]);
  const ports = [await choosePorts(), await choosePorts()] as const;
  const start = ({ standalone, store }: Ports): Promise<Program> =>
    services.startProgram("api/main.ts", {
      DATABASE_URL: databaseUrl,
      TEMPORAL_ADDRESS: "127.0.0.1:1",
      PORT: String(standalone),
      STORE_PORT: String(store),
      TRUSTED_PROXIES: "1",
      DRAIN_SECONDS: "5",
    });
  const programs = [await start(ports[0]), await start(ports[1])];
  const proxy = await startHaproxy(ports, {
    "acl is_exempt src 203.0.113.0/24": "acl is_exempt src 127.0.0.1",
  });
  const agent = new Agent({ keepAlive: true });
  const failures: string[] = [];
  const latenciesMs: number[] = [];
  const restarted = new AbortController();
  let sent = 0;
  const send = async (): Promise<void> => {
    while (!restarted.signal.aborted || sent < requests) {
      sent += 1;
      const startedAtMs = performance.now();
      try {
        const { status } = await proxy.call("standalone", "/plant/trees", {
          headers: { Authorization: key },
          body: '{"count":1}',
          agent,
        });
        if (status !== 200) {
          failures.push(String(status));
        }
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
      }
      latenciesMs.push(performance.now() - startedAtMs);
    }
  };
  const waitForStart = async (server: "api1" | "api2", before: number): Promise<void> => {
    while (proxy.countStarts(server) === before) {
      await once(proxy.output, "data");
    }
  };
  try {
    const clients = Array.from({ length: CLIENTS }, send);
    for (let restart = 0; restart < restarts; restart += 1) {
      const index = restart % 2 === 0 ? 0 : 1;
      const server = index === 0 ? "api1" : "api2";
      const starts = proxy.countStarts(server);
      await programs[index]?.stop();
      programs[index] = await start(ports[index]);
      await waitForStart(server, starts);
      report(`restart ${restart + 1} of ${restarts}: ${sent} requests, ${failures.length} failed`);
    }
    restarted.abort();
    await Promise.all(clients);
  } finally {
    agent.destroy();
    await proxy.stop();
    await Promise.all(programs.map((program) => program.stop()));
  }
  const registered = await countRegistrations(databaseUrl);
  for (const failure of new Set(failures)) {
    report(`failed: ${failure}`);
  }
  const ascending = latenciesMs.toSorted((left, right) => left - right);
  report(
    `p50 ${percentile(ascending, 0.5).toFixed(1)} ms, p99 ${percentile(ascending, 0.99).toFixed(1)} ms, longest ${(ascending.at(-1) ?? 0).toFixed(0)} ms`,
  );
  return resultsOf({ sent, failed: failures.length, registered, restarts });
};
