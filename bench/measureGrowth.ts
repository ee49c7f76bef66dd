import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Program, Services } from "./support/startServices.ts";

export type GrowthSizes = {
  /** Numbers of existing registrations. The first is the baseline. */
  readonly existing: readonly number[];
  readonly connections: number;
  readonly rounds: number;
  readonly roundMs: number;
};

const SPAN_SECONDS = 30 * 24 * 3600;
const WARM_UP_MS = 1500;
/** Highest growth of a cost that counts as flat. */
const FLAT = 1.15;

const rateAt = (reports: readonly LoadReport[], index: number): number =>
  reports[index]?.requestsPerSecond ?? Number.NaN;

/** Compares the cost of a POST with few and with many existing registrations, each in its own database and API. */
export const measureGrowth = async (
  services: Services,
  { existing, connections, rounds, roundMs }: GrowthSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const setups: {
    readonly name: string;
    readonly keys: readonly string[];
    readonly api: Program;
  }[] = [];
  for (const count of existing) {
    const name = `existing_${count}`;
    const databaseUrl = await services.createDatabase(name);
    const accountId = crypto.randomUUID();
    const keys = await createAccounts(databaseUrl, [accountId]);
    const startedAtMs = performance.now();
    await fillRegistrations(databaseUrl, {
      accountId,
      count,
      spanSeconds: SPAN_SECONDS,
      reported: true,
    });
    report(
      `${count} registrations inserted in ${((performance.now() - startedAtMs) / 1000).toFixed(0)} s`,
    );
    const api = await services.startProgram("api/main.ts", {
      DATABASE_URL: databaseUrl,
    });
    setups.push({ name, keys, api });
  }
  const measuredRounds = await repeatUndisturbed(
    rounds,
    async () => {
      const reports: LoadReport[] = [];
      for (const { keys, api } of setups) {
        reports.push(
          await runLoad({
            url: `${api.url}/plant/trees`,
            keys,
            connections,
            warmUpMs: WARM_UP_MS,
            durationMs: roundMs,
          }),
        );
      }
      return reports;
    },
    (reports, others) =>
      report(
        `POST with ${existing.join(", ")} existing registrations: ` +
          `${reports.map(({ requestsPerSecond }) => requestsPerSecond.toFixed(0)).join(", ")}/s; ` +
          `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
      ),
  );
  for (const { name, api } of setups) {
    await api.stop();
    await services.dropDatabase(name);
  }
  const [first = 0] = existing;
  return existing.slice(1).map((count, index) =>
    compareRounds(
      `POST with ${count} existing registrations: requests/s compared with ${first}`,
      measuredRounds,
      {
        value: (reports) => rateAt(reports, index + 1),
        baseline: (reports) => rateAt(reports, 0),
        goal: { atLeast: 1 / FLAT },
      },
    ),
  );
};
