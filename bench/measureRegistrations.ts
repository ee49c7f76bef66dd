import { createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import { pgbenchAccountId, runPgbench } from "./support/runPgbench.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";

export type RegistrationSizes = {
  readonly connections: number;
  readonly rounds: number;
  readonly roundMs: number;
};

const MANY_ACCOUNTS = 1000;

/** As many as the API's own pool has by default. */
const POOL_CLIENTS = 10;

/** The first round of a process is slow for seconds, until its code is compiled. */
const WARM_UP_MS = 4000;

type Round = {
  readonly api: LoadReport;
  readonly echo: LoadReport;
  /** With as many clients as the API is sent requests at once, and with as many as a usual pool. */
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
    `others ${others === null ? "?" : (others * 100).toFixed(0)} % of the machine`
  );
};

/** Compares a number of the API with the baseline's of the same round. */
const compare = (
  rounds: readonly Round[],
  {
    of,
    to,
    digits = 0,
  }: {
    readonly of: (round: Round) => number;
    readonly to: (round: Round) => number | null;
    readonly digits?: number;
  },
): Pick<Result, "measured" | "baseline"> & { readonly ratio: number } => {
  const baselines = rounds.flatMap((round) => to(round) ?? []);
  return {
    measured: describeSpread(rounds.map(of), digits),
    baseline: baselines.length === 0 ? "program missing" : describeSpread(baselines, digits),
    ratio: median(rounds.map((round) => of(round) / (to(round) ?? Number.NaN))),
  };
};

const summarize = (
  accounts: number,
  connections: number,
  rounds: readonly Round[],
): readonly Result[] => {
  const where = accounts === 1 ? "POST, one account" : `POST, ${accounts} accounts`;
  const isPromised = accounts === 1;
  const rate = (round: Round): number => round.api.requestsPerSecond;
  const line = (
    what: string,
    { ratio, ...compared }: ReturnType<typeof compare>,
    goal: { readonly text: string; readonly isReached: (ratio: number) => boolean } | null,
  ): Result => ({
    what: `${where}: ${what}`,
    ...compared,
    ratio: Number.isNaN(ratio) ? "" : ratio.toFixed(2),
    goal: goal?.text ?? "",
    reached: goal && !Number.isNaN(ratio) ? goal.isReached(ratio) : null,
  });
  return [
    line(
      "requests/s to the echo handler's",
      compare(rounds, { of: rate, to: ({ echo }) => echo.requestsPerSecond }),
      isPromised ? { text: "at least 0.90", isReached: (ratio) => ratio >= 0.9 } : null,
    ),
    line(
      "p99 ms to the echo handler's",
      compare(rounds, { of: ({ api }) => api.p99Ms, to: ({ echo }) => echo.p99Ms, digits: 1 }),
      isPromised ? { text: "at most 2.00", isReached: (ratio) => ratio <= 2 } : null,
    ),
    line(
      `requests/s to pgbench row by row, ${connections} clients`,
      compare(rounds, { of: rate, to: ({ rowByRow }) => rowByRow }),
      isPromised ? { text: "at least 6.00", isReached: (ratio) => ratio >= 6 } : null,
    ),
    line(
      `requests/s to pgbench row by row, ${POOL_CLIENTS} clients`,
      compare(rounds, { of: rate, to: ({ rowByRowPool }) => rowByRowPool }),
      null,
    ),
  ];
};

/**
 * POST /plant/trees beside an echo handler in the same framework, and beside PostgreSQL itself where every request is a
 * transaction of its own. A round measures all of them one after the other, so that a slow minute is slow for all.
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
    const kept = await repeatUndisturbed(
      rounds,
      async (): Promise<Round> => ({
        echo: await runLoad({ ...load, url: `${echo.address}/plant/trees` }),
        api: await runLoad({ ...load, url: `${api.address}/plant/trees` }),
        rowByRow: await rowByRow(connections),
        rowByRowPool: await rowByRow(POOL_CLIENTS),
      }),
      (round, others) => report(describeRound(accounts, round, others)),
    );
    results.push(...summarize(accounts, connections, kept));
  }
  await api.stop();
  await echo.stop();
  await services.dropDatabase("registrations");
  return results;
};
