import { createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import { pgbenchAccountId, runPgbench } from "./support/runPgbench.ts";
import type { Services } from "./support/startServices.ts";

export type RegistrationSizes = {
  readonly connections: number;
  readonly rounds: number;
  readonly roundMs: number;
};

const MANY_ACCOUNTS = 1000;

/** Default pool size of the API. */
const POOL_CLIENTS = 10;

/** A process is slow for the first seconds, until its code is compiled. */
const WARM_UP_MS = 4000;

type Round = {
  readonly api: LoadReport;
  readonly echo: LoadReport;
  /** Rates of pgbench with as many clients as the API has connections, and with POOL_CLIENTS. */
  readonly rowByRow: number | null;
  readonly rowByRowPool: number | null;
};

const describeLoad = ({ requestsPerSecond, p50Ms, p99Ms, cpuShare }: LoadReport): string =>
  `${requestsPerSecond.toFixed(0)}/s, p50 ${p50Ms.toFixed(1)}, p99 ${p99Ms.toFixed(1)} ms ` +
  `(generator ${(cpuShare * 100).toFixed(0)} % of a core)`;

const describeRound = (
  accounts: number,
  { api, echo, rowByRow, rowByRowPool }: Round,
  others: number | null,
): string => {
  return (
    `POST over ${accounts}: API ${describeLoad(api)}; echo ${describeLoad(echo)}; ` +
    `pgbench ${rowByRow?.toFixed(0) ?? "-"}/s, with ${POOL_CLIENTS} clients ${rowByRowPool?.toFixed(0) ?? "-"}/s; ` +
    `other processes ${others === null ? "?" : (others * 100).toFixed(0)} % of CPU`
  );
};

const summarize = (
  accounts: number,
  connections: number,
  rounds: readonly Round[],
): readonly Result[] => {
  const where = accounts === 1 ? "POST, one account" : `POST, ${accounts} accounts`;
  const hasGoal = accounts === 1;
  const value = ({ api }: Round): number => api.requestsPerSecond;
  return [
    compareRounds(`${where}: requests/s compared with the echo handler`, rounds, {
      value,
      baseline: ({ echo }) => echo.requestsPerSecond,
      goal: hasGoal ? { atLeast: 0.9 } : null,
    }),
    compareRounds(`${where}: p99 ms compared with the echo handler`, rounds, {
      value: ({ api }) => api.p99Ms,
      baseline: ({ echo }) => echo.p99Ms,
      digits: 1,
      goal: hasGoal ? { atMost: 2 } : null,
    }),
    compareRounds(
      `${where}: requests/s compared with pgbench row by row, ${connections} clients`,
      rounds,
      { value, baseline: ({ rowByRow }) => rowByRow, goal: hasGoal ? { atLeast: 6 } : null },
    ),
    compareRounds(
      `${where}: requests/s compared with pgbench row by row, ${POOL_CLIENTS} clients`,
      rounds,
      { value, baseline: ({ rowByRowPool }) => rowByRowPool },
    ),
  ];
};

/**
 * Compares POST /plant/trees with an echo handler in the same framework, and with PostgreSQL when each request is one
 * transaction. A round measures all of them in sequence, so that a slow minute of the machine affects all of them.
 */
export const measureRegistrations = async (
  services: Services,
  { connections, rounds, roundMs }: RegistrationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("registrations");
  const ids = Array.from({ length: MANY_ACCOUNTS }, (_, index) => pgbenchAccountId(index + 1));
  const keys = await createAccounts(databaseUrl, ids);
  const settings = { DATABASE_URL: databaseUrl };
  const api = await services.startProgram("api/main.ts", settings);
  const echo = await services.startProgram("bench/echoServer.ts", settings);
  const results: Result[] = [];
  for (const accounts of [1, MANY_ACCOUNTS]) {
    const load = {
      keys: keys.slice(0, accounts),
      connections,
      warmUpMs: WARM_UP_MS,
      durationMs: roundMs,
    };
    const rowByRow = (clients: number): Promise<number | null> =>
      runPgbench({
        databaseUrl,
        folder: services.folder,
        accounts,
        clients,
        durationMs: roundMs,
      });
    const measuredRounds = await repeatUndisturbed(
      rounds,
      async (): Promise<Round> => ({
        echo: await runLoad({ ...load, url: `${echo.url}/plant/trees` }),
        api: await runLoad({ ...load, url: `${api.url}/plant/trees` }),
        rowByRow: await rowByRow(connections),
        rowByRowPool: await rowByRow(POOL_CLIENTS),
      }),
      (round, others) => report(describeRound(accounts, round, others)),
    );
    results.push(...summarize(accounts, connections, measuredRounds));
  }
  await api.stop();
  await echo.stop();
  await services.dropDatabase("registrations");
  return results;
};
