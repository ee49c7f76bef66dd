import type { DatabasePool } from "slonik";
import {
  lockCallRate,
  recordCallRate,
  recordReservation,
} from "../../../db/billing/sending/callRate.ts";
import type { Reservation } from "../../../domain/billing/callRate.ts";
import { lowerCallRate, reserveCalls } from "../../../domain/billing/callRate.ts";

/** Reserves the times of up to `wanted` calls to Stripe among those of all workers. */
export const reserveStripeCalls = (db: DatabasePool, wanted: number): Promise<Reservation> =>
  db.transaction(async (transaction) => {
    const rate = await lockCallRate(transaction);
    if (rate.secondsSinceChange < 0) {
      // The clock was set back. The rate would neither rise nor fall until the clock has caught up.
      await recordCallRate(transaction, rate.callsPerSecond);
    }
    const reservation = reserveCalls(rate, wanted);
    const { calls, startsInSeconds, intervalSeconds } = reservation;
    if (calls > 0) {
      await recordReservation(transaction, startsInSeconds + calls * intervalSeconds);
    }
    return reservation;
  });

/** Lowers the rate of all workers' calls after Stripe has rejected one because there were too many. */
export const lowerStripeCallRate = (db: DatabasePool): Promise<void> =>
  db.transaction(async (transaction) => {
    const lowered = lowerCallRate(await lockCallRate(transaction));
    if (lowered !== null) {
      await recordCallRate(transaction, lowered);
    }
  });
