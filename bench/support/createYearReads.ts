import {
  listReadyStreams,
  listResumableStreams,
} from "../../modules/billing/sending/waitingStreams.sql.ts";
import { lastSealableSecond } from "../../modules/billing/usage.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import type { DatabasePool } from "slonik";
import { systemClock } from "../../runtime/clock.ts";
import { readStatement } from "../../modules/billing/readStatement.ts";
import { reconcileUsage } from "../../modules/billing/reconciliation/reconcileUsage.ts";
import { getDashboardSlug } from "../../modules/dashboard/getDashboardSlug.ts";
import { readDashboard } from "../../modules/dashboard/readDashboard.ts";
import { createPlantedPlanting } from "./plantOrders.ts";
import { timeCalls } from "./timeCalls.ts";

const READS = 200;
const SLOW_READS = 5;
const DAY_MS = 86_400_000;
const LEASE_MS = 15_000;
const SEARCHED_STREAMS = 500;
const RECENT_DAYS = 38;

const signal = new AbortController().signal;

const timeWarmCalls = async (calls: number, call: () => Promise<unknown>): Promise<number> => {
  await call();
  return timeCalls(calls, call);
};

export type Reads = ReadonlyMap<string, () => Promise<number>>;

/** The reads to compare, each of which returns its median duration in milliseconds. */
export const createYearReads = async (
  db: DatabasePool,
  accountId: string,
  {
    apiUrl,
    key,
    ids,
    oldestDays,
  }: {
    readonly apiUrl: string;
    readonly key: string;
    /** Old registrations, enough that few are read twice. */
    readonly ids: readonly string[];
    /** How long ago the oldest month begins that is completely filled. */
    readonly oldestDays: number;
  },
): Promise<Reads> => {
  const billing = createBilling({ db, stripe: null });
  const context = { db, clock: systemClock, billing, planting: createPlantedPlanting() };
  const slug = await getDashboardSlug(context, accountId);
  const read = async (path: string): Promise<void> => {
    const response = await fetch(apiUrl + path, { headers: { Authorization: key } });
    await response.text();
    if (!response.ok) {
      throw new Error(`${path} returned ${response.status}.`);
    }
  };
  const inTurn = (pathOf: (id: string) => string) => {
    let next = 0;
    return () =>
      timeWarmCalls(READS, () => {
        next += 1;
        return read(pathOf(ids[next % ids.length] ?? ""));
      });
  };
  const readMonth = (daysAgo: number) => () => {
    const startMs = Date.now() - daysAgo * DAY_MS;
    const month = { start: new Date(startMs), end: new Date(startMs + 30 * DAY_MS) };
    return timeWarmCalls(SLOW_READS, () =>
      readStatement(context, { accountId, mode: "live" }, month, signal),
    );
  };
  return new Map([
    ["first page of 100 trees", () => timeWarmCalls(READS, () => read("/plant/trees?first=100"))],
    ["one id of the list", inTurn((id) => `/plant/trees?id=${id}`)],
    ["billing status of one id", inTurn((id) => `/usage/${id}`)],
    ["evidence of one id, not cached", inTurn((id) => `/evidence/tree/${id}`)],
    ["data of the dashboard", () => timeWarmCalls(READS, () => readDashboard(context, slug))],
    ["statement of 30 days", readMonth(RECENT_DAYS)],
    ["statement of the oldest 30 days", readMonth(oldestDays)],
    [
      "search of a sender for usage to report",
      () =>
        timeWarmCalls(READS, async () => {
          const now = systemClock.now();
          const until = new Date(now.getTime() + LEASE_MS);
          await listReadyStreams(db, {
            after: null,
            lastSecond: lastSealableSecond(now),
            limit: SEARCHED_STREAMS,
          });
          await listResumableStreams(db, {
            after: null,
            lease: { now, until },
            limit: SEARCHED_STREAMS,
          });
        }),
    ],
    [
      "reconciliation of all accounts, 35 days",
      () => timeWarmCalls(SLOW_READS, () => reconcileUsage(context, {}, signal)),
    ],
  ]);
};
