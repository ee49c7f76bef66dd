import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import type { Result } from "./support/result.ts";
import type { LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Program, Services } from "./support/startServices.ts";
import { describeSpread, median } from "./support/statistics.ts";

export type GrowthSizes = {
  /** Numbers of registrations that exist already, the first is the baseline. */
  readonly existing: readonly number[];
  readonly connections: number;
  readonly rounds: number;
  readonly roundMs: number;
};

const SPAN_SECONDS = 30 * 24 * 3600;
const WARM_UP_MS = 1500;
/** A cost is called flat when it rises by no more than this. */
const FLAT = 1.15;

const rateAt = (reports: readonly LoadReport[], index: number): number =>
  reports[index]?.requestsPerSecond ?? Number.NaN;

/** The cost of a POST on one account that has few, many, very many registrations: a database and an API for each. */
export const measureGrowth = async (
  services: Services,
  { existing, connections, rounds, roundMs }: GrowthSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const places: {
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
      `${count} registrations filled in ${((performance.now() - startedAtMs) / 1000).toFixed(0)} s`,
    );
    const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
    places.push({ name, keys, api });
  }
  const kept = await repeatUndisturbed(
    rounds,
    async () => {
      const reports: LoadReport[] = [];
      for (const { keys, api } of places) {
        reports.push(
          await runLoad({
            url: `${api.address}/plant/trees`,
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
        `POST with ${existing.join(", ")} on record: ` +
          `${reports.map(({ requestsPerSecond }) => requestsPerSecond.toFixed(0)).join(", ")}/s; ` +
          `others ${((others ?? 0) * 100).toFixed(0)} % of the machine`,
      ),
  );
  for (const { name, api } of places) {
    await api.stop();
    await services.dropDatabase(name);
  }
  const [first = 0] = existing;
  return existing.slice(1).map((count, index) => {
    const cost = median(kept.map((reports) => rateAt(reports, 0) / rateAt(reports, index + 1)));
    return {
      what: `POST with ${count} on record: requests/s to those with ${first}`,
      measured: describeSpread(kept.map((reports) => rateAt(reports, index + 1))),
      baseline: describeSpread(kept.map((reports) => rateAt(reports, 0))),
      ratio: (1 / cost).toFixed(2),
      goal: `flat: at least ${(1 / FLAT).toFixed(2)}`,
      reached: cost <= FLAT,
    };
  });
};
