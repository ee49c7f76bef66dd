import type { CommonQueryMethods } from "slonik";
import { readServerStatus } from "../../db/connections/serverStatus.ts";
import type { Clock } from "../../runtime/clock.ts";
import { systemClock } from "../../runtime/clock.ts";

/** The clocks of machines with NTP differ by far less. */
const TOLERATED_SKEW_MS = 5000;

/**
 * Returns a clock, corrected if this machine's differs from the database's by more than 5 s: the times of holds, and from
 * which the processor's sums may lag, are compared with those of other machines.
 */
export const correctClock = async (db: CommonQueryMethods, clock: Clock): Promise<Clock> => {
  const sentAtMs = systemClock.now().getTime();
  const { now } = await readServerStatus(db);
  const receivedAtMs = systemClock.now().getTime();
  const isRight =
    now.getTime() >= sentAtMs - TOLERATED_SKEW_MS &&
    now.getTime() <= receivedAtMs + TOLERATED_SKEW_MS;
  const correctionMs = isRight ? 0 : now.getTime() - receivedAtMs;
  return { now: () => new Date(clock.now().getTime() + correctionMs) };
};

export const readDatabaseTime = async (db: CommonQueryMethods, clock: Clock): Promise<Date> =>
  (await correctClock(db, clock)).now();
