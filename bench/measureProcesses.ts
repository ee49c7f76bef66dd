import { measureBacklog } from "./measureReporting.ts";
import type { BacklogSizes } from "./measureReporting.ts";
import { behindPgBouncer } from "./support/behindPgBouncer.ts";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import type { LoadReport } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { accountIds } from "./support/waitUntilDrained.ts";
import { watchGroups, watchMachine } from "./support/watchMachine.ts";

export type ProcessSizes = {
  /** The numbers of processes that are compared. The first is the baseline. */
  readonly counts: readonly number[];
  readonly connections: number;
  readonly roundMs: number;
  readonly backlog: BacklogSizes;
  /** Whether the processes reach PostgreSQL through PgBouncer. */
  readonly pgbouncer: boolean;
};

/** Of each API: together they have only the machine's cores to compile their code. */
const WARM_UP_MS = 3000;
const RAMP_UP_MS = 500;

/** The share of a core that each group of processes used. */
const describeShares = (cpuMs: Readonly<Record<string, number>>, elapsedMs: number): string =>
  Object.entries(cpuMs)
    .filter(([, ms]) => ms > 0)
    .map(([name, ms]) => `${name} ${((ms / elapsedMs) * 100).toFixed(0)} %`)
    .join(", ");

/** Measures the registrations of many accounts that several APIs receive together. */
const measureApis = async (
  services: Services,
  { connections, roundMs, backlog: { accounts: count } }: ProcessSizes,
  apiCount: number,
): Promise<{ readonly requestsPerSecond: number; readonly text: string }> => {
  const databaseUrl = await services.createDatabase("processes");
  const keys = await createAccounts(databaseUrl, accountIds(count));
  const apis = await Promise.all(
    Array.from({ length: apiCount }, () =>
      services.startProgram("api/main.ts", {
        DATABASE_URL: databaseUrl,
        // Nothing listens there; registrations do not need Temporal.
        TEMPORAL_ADDRESS: "127.0.0.1:1",
      }),
    ),
  );
  const load = (warmUpMs: number, durationMs: number): Promise<readonly LoadReport[]> =>
    Promise.all(
      apis.map(({ url }) =>
        runLoad({
          url: `${url}/plant/trees`,
          keys,
          connections: Math.max(1, Math.floor(connections / apiCount)),
          warmUpMs,
          durationMs,
        }),
      ),
    );
  await load(0, WARM_UP_MS * apiCount);
  const readCpu = await watchGroups({
    API: apis.map(({ pid }) => pid),
    PostgreSQL: "postgres",
    PgBouncer: "pgbouncer",
  });
  const readOtherShare = await watchMachine();
  const startedAtMs = performance.now();
  const loads = await load(RAMP_UP_MS, roundMs);
  const shares = describeShares(await readCpu(), performance.now() - startedAtMs);
  const others = await readOtherShare();
  await Promise.all(apis.map(({ stop }) => stop()));
  await services.dropDatabase("processes");
  const requestsPerSecond = loads.reduce((sum, each) => sum + each.requestsPerSecond, 0);
  const p99Ms = Math.max(...loads.map(({ p99Ms: own }) => own));
  const loadShare = loads.reduce((sum, { cpuShare }) => sum + cpuShare, 0);
  return {
    requestsPerSecond,
    text:
      `${requestsPerSecond.toFixed(0)} requests/s, p99 ${p99Ms.toFixed(0)} ms; of a core: ${shares}, load ${(loadShare * 100).toFixed(0)} %; ` +
      `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
  };
};

/** Measures how far several APIs, and several workers, on one database do more than one. */
export const measureProcesses = async (
  services: Services,
  sizes: ProcessSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const { pooled, version, stopPooler } = sizes.pgbouncer
    ? await behindPgBouncer(services)
    : { pooled: services, version: null, stopPooler: () => Promise.resolve() };
  const through = version === null ? "" : ` through PgBouncer ${version}`;
  const results: Result[] = [];
  let baseline: number | null = null;
  try {
    for (const count of sizes.counts) {
      const { requestsPerSecond, text } = await measureApis(pooled, sizes, count);
      baseline ??= requestsPerSecond;
      report(`processes, ${count} API(s)${through}: ${text}`);
      results.push({
        what: `processes: POST of ${sizes.backlog.accounts} accounts, ${count} API(s)${through}`,
        measured: text,
        baseline: `${baseline.toFixed(0)} requests/s of ${sizes.counts[0]} API(s)`,
        ratio: (requestsPerSecond / baseline).toFixed(2),
        goal: "",
        isReached: null,
      });
    }
    for (const workers of sizes.counts) {
      results.push(...(await measureBacklog(pooled, { ...sizes.backlog, workers }, report)));
    }
  } finally {
    await stopPooler();
  }
  return results;
};
