import { measureBacklog } from "./measureReporting.ts";
import type { BacklogSizes } from "./measureReporting.ts";
import { createAccounts } from "./support/createAccounts.ts";
import type { Result } from "./support/result.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { accountIds } from "./support/waitUntilDrained.ts";
import { watchGroups, watchMachine } from "./support/watchMachine.ts";

export type ProcessSizes = {
  /** The numbers of processes that are compared. The first is the baseline. */
  readonly counts: readonly number[];
  readonly connections: number;
  readonly roundMs: number;
  readonly backlog: BacklogSizes;
};

const WARM_UP_MS = 2000;

/** The share of a core that each group of processes used. */
const describeShares = (cpuMs: Readonly<Record<string, number>>, elapsedMs: number): string =>
  Object.entries(cpuMs)
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
  const readCpu = await watchGroups({
    API: apis.map(({ pid }) => pid),
    PostgreSQL: "postgres",
  });
  const readOtherShare = await watchMachine();
  const startedAtMs = performance.now();
  const loads = await Promise.all(
    apis.map(({ url }) =>
      runLoad({
        url: `${url}/plant/trees`,
        keys,
        connections: Math.max(1, Math.floor(connections / apiCount)),
        warmUpMs: WARM_UP_MS,
        durationMs: roundMs,
      }),
    ),
  );
  const shares = describeShares(await readCpu(), performance.now() - startedAtMs);
  const others = await readOtherShare();
  await Promise.all(apis.map(({ stop }) => stop()));
  await services.dropDatabase("processes");
  const requestsPerSecond = loads.reduce((sum, load) => sum + load.requestsPerSecond, 0);
  const p99Ms = Math.max(...loads.map((load) => load.p99Ms));
  return {
    requestsPerSecond,
    text:
      `${requestsPerSecond.toFixed(0)} requests/s, p99 ${p99Ms.toFixed(0)} ms; of a core: ${shares}; ` +
      `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
  };
};

/** Measures how far several APIs, and several workers, on one database do more than one. */
export const measureProcesses = async (
  services: Services,
  sizes: ProcessSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const results: Result[] = [];
  let baseline: number | null = null;
  for (const count of sizes.counts) {
    const { requestsPerSecond, text } = await measureApis(services, sizes, count);
    baseline ??= requestsPerSecond;
    report(`processes, ${count} API(s): ${text}`);
    results.push({
      what: `processes: POST of ${sizes.backlog.accounts} accounts, ${count} API(s)`,
      measured: text,
      baseline: `${baseline.toFixed(0)} requests/s of ${sizes.counts[0]} API(s)`,
      ratio: (requestsPerSecond / baseline).toFixed(2),
      goal: "",
      isReached: null,
    });
  }
  for (const workers of sizes.counts) {
    results.push(...(await measureBacklog(services, { ...sizes.backlog, workers }, report)));
  }
  return results;
};
