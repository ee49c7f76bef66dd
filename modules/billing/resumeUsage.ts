import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { findHold, isHoldMissing } from "./deployment.rules.ts";
import type { Hold } from "./deployment.rules.ts";
import {
  doubtUsage,
  endDoubt,
  lockDeployment,
  recordRelease,
  recordServer,
} from "./deployment.sql.ts";
import { askAboutUnsent } from "./meterEvents.sql.ts";
import { readDatabaseTime } from "./readDatabaseTime.ts";

export type ResumedUsage = {
  /** The hold that has ended; null if usage was not held. */
  readonly hold: Hold | null;
  /**
   * Until when usage may have been sent in a history that was lost, so that Stripe is asked about it first; null if nothing was
   * lost.
   */
  readonly doubtedUntil: Date | null;
};

/**
 * Ends a hold. After a restore, a promotion or a copy, this database replaces the old one from now on. Usage that it does not
 * know to be delivered may have been sent in the history that was lost: the senders ask Stripe about it before they send it,
 * once the sums show everything from before the hold. Failed usage is asked about when it is retried.
 * @param options.wasNothingLost the old database has sent nothing that this one does not know of
 * @param options.isRestored a restore went unnoticed: the data folder was put back in its place, or rows were
 * @param options.isDryRun nothing is changed
 */
export const resumeUsage = (
  { db, clock, actor }: OperatorContext,
  {
    by,
    wasNothingLost,
    isRestored = false,
    isDryRun,
  }: {
    readonly by: string;
    readonly wasNothingLost: boolean;
    readonly isRestored?: boolean;
    readonly isDryRun: boolean;
  },
): Promise<ResumedUsage> =>
  db.transaction(async (transaction) => {
    const deployment = await lockDeployment(transaction);
    const hold = findHold(deployment);
    if (!hold) {
      return { hold, doubtedUntil: null };
    }
    const now = await readDatabaseTime(transaction, clock);
    const hasChanged = isHoldMissing(deployment);
    const { doubtedUntil } = deployment;
    // A hold after a restore begins with the doubt; an operator's later one does not renew it.
    const isDoubted = doubtedUntil !== null && hold.at !== null && doubtedUntil >= hold.at;
    const isAfterRestore = hasChanged || isDoubted || isRestored;
    const since = isDoubted && !hasChanged ? doubtedUntil : (!hasChanged && hold.at) || now;
    const until = isAfterRestore && !wasNothingLost ? since : null;
    if (isDryRun) {
      return { hold, doubtedUntil: until };
    }
    if (until !== null) {
      if (!isDoubted) {
        await doubtUsage(transaction, until);
      }
      await askAboutUnsent(transaction, until);
    } else if (isAfterRestore) {
      await endDoubt(transaction);
    }
    await recordServer(transaction);
    await recordRelease(transaction, { at: now, by, hold });
    await recordAction(transaction, actor, now, {
      action: "usage.resume",
      details: { hold, doubtedUntil: until, wasNothingLost },
    });
    return { hold, doubtedUntil: until };
  });
