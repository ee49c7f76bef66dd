import type { Benchmark } from "./support/benchmark.ts";
import { compareRounds } from "./support/compareRounds.ts";
import { accountIds, createAccounts } from "./support/createAccounts.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { composeRegistrations, describeLoad, runLoad } from "./support/runLoad.ts";

type Round = {
  readonly api: LoadReport;
  readonly bare: LoadReport;
  /** The same write behind a bare Koa app. */
  readonly write: LoadReport;
};

const summarize = (where: string, rounds: readonly Round[], isOneAccount: boolean) => {
  const value = ({ api }: Round): number => api.requestsPerSecond;
  return [
    compareRounds(`${where}: requests/s, and of a bare Koa app`, rounds, {
      value,
      baseline: ({ bare }) => bare.requestsPerSecond,
      goal: { atLeast: isOneAccount ? 0.5 : 0.35 },
    }),
    compareRounds(`${where}: µs of the API, and of the same write behind bare Koa`, rounds, {
      value: ({ api }) => api.serverUs,
      baseline: ({ write }) => write.serverUs,
      goal: { atMost: 1.5 },
    }),
    compareRounds(`${where}: p99 in ms, and of the same write behind bare Koa`, rounds, {
      value: ({ api }) => api.p99Ms,
      baseline: ({ write }) => write.p99Ms,
      digits: 1,
      goal: { atMost: 2 },
    }),
  ];
};

/**
 * Compares POST /plant/trees of one account and of many with a bare Koa app, and with the same write behind one.
 */
export const register: Benchmark = async ({ services, sizes, log }) => {
  const { connections, rounds, roundMs } = sizes;
  const databaseUrl = await services.createDatabase("register");
  const ids = accountIds(sizes.accounts);
  const keys = await createAccounts(databaseUrl, ids);
  const settings = { DATABASE_URL: databaseUrl };
  const programs = {
    api: await services.startProgram("api/main.ts", settings),
    bare: await services.startProgram("bench/programs/bareServer.ts", {}),
    write: await services.startProgram("bench/programs/bareServer.ts", {
      ...settings,
      ACCOUNT_IDS: ids.join(","),
    }),
  };
  const results = [];
  for (const accounts of [1, sizes.accounts]) {
    const where = accounts === 1 ? "POST, one account" : `POST, ${accounts} accounts`;
    const load = (program: (typeof programs)["api"]): Promise<LoadReport> =>
      runLoad(program, {
        url: program.url,
        requests: composeRegistrations(program.url, keys.slice(0, accounts)),
        connections,
        durationMs: roundMs,
      });
    const measured = await repeatUndisturbed(
      rounds,
      async (): Promise<Round> => ({
        bare: await load(programs.bare),
        write: await load(programs.write),
        api: await load(programs.api),
      }),
      ({ api, bare, write }) =>
        `${where}: ${describeLoad(api)}; bare Koa ${describeLoad(bare)}; ` +
        `the same write ${describeLoad(write)}`,
      log,
    );
    results.push(...summarize(where, measured, accounts === 1));
  }
  for (const program of Object.values(programs)) {
    await program.stop();
  }
  await services.dropDatabase("register");
  return results;
};
