import type { DatabasePool } from "slonik";
import { listMeterEventIdsOfEndedPeriods } from "../meterEventReports.sql.ts";
import { recordDelays, settleAttempts } from "./attempts.sql.ts";
import type { AttemptDelay, AttemptSettlement } from "./attempts.sql.ts";
import { joinCalls } from "../../../db/batching/joinCalls.ts";
import { DEFAULT_GRACE_MS } from "../meterEvents.rules.ts";

/** How the outcomes of attempts are recorded: those of the same time in one statement. */
export type AttemptRecords = {
  /** Returns whether the billing period of a delivered event had ended. */
  readonly isLate: (delivered: { readonly id: bigint; readonly now: Date }) => Promise<boolean>;
  /** Returns false if another attempt has begun. */
  readonly settle: (settlement: AttemptSettlement) => Promise<boolean>;
  readonly delay: (delay: AttemptDelay) => Promise<null>;
};

export const createAttemptRecords = (db: DatabasePool, collectMs = 0): AttemptRecords => ({
  isLate: joinCalls(async (delivered) => {
    const now = new Date(Math.max(...delivered.map((each) => each.now.getTime())));
    const late = await listMeterEventIdsOfEndedPeriods(
      db,
      delivered.map(({ id }) => id),
      { now, graceMs: DEFAULT_GRACE_MS },
    );
    return delivered.map(({ id }) => late.includes(id));
  }),
  settle: joinCalls(
    async (settlements) => {
      const settled = await settleAttempts(db, settlements);
      return settlements.map(({ id }) => settled.has(id));
    },
    { collectMs },
  ),
  delay: joinCalls(
    async (delays: readonly AttemptDelay[]) => {
      await recordDelays(db, delays);
      return delays.map(() => null);
    },
    { collectMs },
  ),
});
