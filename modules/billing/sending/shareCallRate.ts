import type { DatabasePool } from "slonik";
import { lockCallRate, recordCallRate, recordReservation } from "./callRate.sql.ts";
import { lowerCallRate, reserveCalls } from "./callRate.rules.ts";

/** Calls to Stripe that may be made from their times on, by this process's monotonic clock. */
export type ReservedCalls = {
  readonly calls: number;
  readonly startsAtMs: (index: number) => number;
};

/** Reserves the times of up to `wanted` calls to Stripe among those of all workers. */
export const reserveStripeCalls = (db: DatabasePool, wanted: number): Promise<ReservedCalls> =>
  db.transaction(async (transaction) => {
    const rate = await lockCallRate(transaction);
    if (rate.secondsSinceChange < 0) {
      // The clock was set back. The rate would neither rise nor fall until the clock has caught up.
      await recordCallRate(transaction, rate.callsPerSecond);
    }
    const reservedAtMs = performance.now();
    const { calls, startsInSeconds, intervalSeconds } = reserveCalls(rate, wanted);
    if (calls > 0) {
      await recordReservation(transaction, startsInSeconds + calls * intervalSeconds);
    }
    return {
      calls,
      startsAtMs: (index) => reservedAtMs + (startsInSeconds + index * intervalSeconds) * 1000,
    };
  });

/** How soon reserving calls is tried again when all of the near future is reserved. */
export const RESERVE_AGAIN_MS = 50;

/** Lowers the rate of all workers' calls after Stripe has rejected one because there were too many. */
export const lowerStripeCallRate = (db: DatabasePool): Promise<void> =>
  db.transaction(async (transaction) => {
    const lowered = lowerCallRate(await lockCallRate(transaction));
    if (lowered !== null) {
      await recordCallRate(transaction, lowered);
    }
  });
