import type { CommonQueryMethods, DatabasePool, DatabaseTransactionConnection } from "slonik";
import { lockCallRate, readCallRate, recordCallRate, recordReservation } from "./callRate.sql.ts";
import { lowerCallRate, reserveCalls } from "./callRate.rules.ts";

/** Calls to Stripe that may be made from their times on, by this process's monotonic clock. */
export type ReservedCalls = {
  readonly calls: number;
  readonly startsAtMs: (index: number) => number;
};

/**
 * Reserves the times of up to `wanted` calls to Stripe among those of all workers. Until the transaction ends, no worker
 * can reserve others.
 */
export const reserveStripeCalls = async (
  transaction: DatabaseTransactionConnection,
  wanted: number,
): Promise<ReservedCalls> => {
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
};

/** How soon reserving calls is tried again when all of the near future is reserved. */
export const RESERVE_AGAIN_MS = 50;

/** Returns how many calls to Stripe could be reserved at present. Other workers may reserve them first. */
export const countFreeStripeCalls = async (db: CommonQueryMethods): Promise<number> =>
  reserveCalls(await readCallRate(db), Number.POSITIVE_INFINITY).calls;

/** Lowers the rate of all workers' calls after Stripe has rejected one because there were too many. */
export const lowerStripeCallRate = (db: DatabasePool): Promise<void> =>
  db.transaction(async (transaction) => {
    const lowered = lowerCallRate(await lockCallRate(transaction));
    if (lowered !== null) {
      await recordCallRate(transaction, lowered);
    }
  });
