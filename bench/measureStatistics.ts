import { openPool } from "../db/pools/pool.ts";
import { listStatistics } from "../modules/dashboard/statistics.sql.ts";
import type { Grouping, Interval } from "../modules/dashboard/statistics.rules.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { describeSpread } from "./support/statistics.ts";

export type StatisticsSizes = { readonly registrations: number; readonly rounds: number };

const DAY_MS = 24 * 3600 * 1000;
const YEAR_DAYS = 365;
const FEW = 100;

const GROUPINGS: readonly (readonly [string, Grouping | null])[] = [
  ["", null],
  [", by attribution", { by: "attribution" }],
  // Every registration has a value of its own, which is the most that grouping can cost.
  [", by a metadata key of as many values", { by: "metadata", key: "order" }],
];

const dayOf = (timeMs: number): string => new Date(timeMs).toISOString().slice(0, 10);

/** Measures `GET /stats` of an account with many registrations in a year, compared with one that has few. */
export const measureStatistics = async (
  { createDatabase, dropDatabase }: Services,
  { registrations, rounds }: StatisticsSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await createDatabase("statistics");
  const [large, small] = [crypto.randomUUID(), crypto.randomUUID()];
  await createAccounts(databaseUrl, [large, small]);
  for (const [accountId, count] of [[large, registrations] as const, [small, FEW] as const]) {
    report(`filling ${count} registrations`);
    await fillRegistrations(databaseUrl, {
      accountId,
      count,
      spanSeconds: YEAR_DAYS * 24 * 3600,
      reported: true,
    });
  }
  const db = await openPool(databaseUrl);
  const time = async (
    accountId: string,
    days: number,
    interval: Interval,
    grouping: Grouping | null,
  ): Promise<readonly number[]> => {
    const nowMs = Date.now();
    const range = { from: dayOf(nowMs - (days - 1) * DAY_MS), to: dayOf(nowMs) };
    const times: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const startedAtMs = performance.now();
      await listStatistics(db, {
        accountId,
        mode: "live",
        kind: "tree",
        range,
        interval,
        grouping,
      });
      times.push(performance.now() - startedAtMs);
    }
    return times;
  };
  const results: Result[] = [];
  try {
    for (const [what, days, interval] of [
      ["a year by month", YEAR_DAYS, "month"],
      ["a year by day", YEAR_DAYS, "day"],
      ["30 days by day", 30, "day"],
    ] as const) {
      for (const [how, grouping] of GROUPINGS) {
        report(what + how);
        results.push({
          what: `GET /stats, ${what}${how}`,
          measured: `${describeSpread(await time(large, days, interval, grouping))} ms`,
          baseline: `${describeSpread(await time(small, days, interval, grouping))} ms with ${FEW} registrations`,
          ratio: "",
          goal: "",
          isReached: null,
        });
      }
    }
  } finally {
    await db.end();
    await dropDatabase("statistics");
  }
  return results;
};
