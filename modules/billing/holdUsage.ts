import type { DatabaseTransactionConnection } from "slonik";
import {
  lockDeployment,
  readDeployment,
  recordHold,
  recordRelease,
  recordServer,
  renewDeploymentId,
} from "./deployment.sql.ts";
import type { Deployment } from "./deployment.sql.ts";
import { redateBlockedEvents } from "./reconciliation/eventsInDoubt.sql.ts";
import { SERVICE } from "../accounts/audit.rules.ts";
import {
  describeHold,
  findHold,
  HOLD_ADVICE,
  isHoldMissing,
  RESTORE_HOLD,
} from "./deployment.rules.ts";
import type { Hold } from "./deployment.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { Context } from "../../runtime/context.ts";
import { readDatabaseTime } from "./readDatabaseTime.ts";

/**
 * Holds all usage: nothing is sealed or sent. Calls that have begun may still end.
 * @returns the hold; the earlier one if the operator repeats it
 * @throws {DomainError} request_invalid if usage is held by another operator or for another reason: any release would also
 *   end this hold, unnoticed
 */
export const holdUsage = (
  { db, clock, actor }: OperatorContext,
  { reason, by }: { readonly reason: string; readonly by: string },
): Promise<Hold> =>
  db.transaction(async (transaction) => {
    const { hold } = await lockDeployment(transaction);
    if (hold) {
      if (hold.by === by && hold.reason === reason) {
        return hold;
      }
      throw invalidRequest(
        `${describeHold(hold)}. It began at ${hold.at.toISOString()} and ends for all with \`impact usage release\` or \`impact usage compare-and-release\`, so no other hold was recorded. ${HOLD_ADVICE} If the data folder was copied during a hold, see docs/backup.md.`,
      );
    }
    const recorded = { at: await readDatabaseTime(transaction, clock), reason, by };
    await recordHold(transaction, recorded);
    await recordAction(transaction, actor, recorded.at, { action: "usage.hold" });
    return recorded;
  });

/**
 * Ends a hold, and records the current database server as the deployment's.
 * @returns the hold that has ended, or null if usage was not held
 */
export const endHold = async (
  transaction: DatabaseTransactionConnection,
  { clock, actor }: Omit<OperatorContext, "db">,
  by: string,
): Promise<Hold | null> => {
  const hold = findHold(await lockDeployment(transaction));
  await recordServer(transaction);
  if (hold) {
    const now = await readDatabaseTime(transaction, clock);
    await recordRelease(transaction, { at: now, by, hold });
    await recordAction(transaction, actor, now, { action: "usage.release", details: { hold } });
  }
  return hold;
};

/** Ends a hold in a transaction of its own. */
export const releaseUsage = (context: OperatorContext, by: string): Promise<Hold | null> =>
  context.db.transaction((transaction) => endHold(transaction, context, by));

/**
 * Holds usage from now on. An earlier hold begins anew, for its old reason. If the database has changed, that may have ended
 * in the history that was lost, and usage that was registered meanwhile may have been sent. The deployment's row must be
 * locked.
 */
export const beginHoldAnew = async (
  transaction: DatabaseTransactionConnection,
  { hold: earlier }: Deployment,
  now: Date,
): Promise<Hold> => {
  const { reason, by } = earlier ?? RESTORE_HOLD;
  const hold = { at: now, reason, by };
  await recordHold(transaction, hold);
  if (earlier) {
    // A comparison finds by the time of the hold what an earlier one has blocked, and what reports have blocked since.
    await redateBlockedEvents(transaction, { from: earlier.at, to: now });
  }
  return hold;
};

/**
 * Records the server of a new deployment, with an id that no copy of the empty database has, and holds the usage of one
 * whose server has changed.
 * @returns the hold, or null if usage is not held
 */
export const guardUsage = async ({ db, clock }: Context): Promise<Hold | null> => {
  const deployment = await readDeployment(db);
  if (deployment.systemIdentifier !== null && !isHoldMissing(deployment)) {
    return deployment.hold;
  }
  return db.transaction(async (transaction) => {
    const current = await lockDeployment(transaction);
    if (current.systemIdentifier === null) {
      await renewDeploymentId(transaction);
      await recordServer(transaction);
      return current.hold;
    }
    if (!isHoldMissing(current)) {
      return current.hold;
    }
    const now = await readDatabaseTime(transaction, clock);
    const hold = await beginHoldAnew(transaction, current, now);
    await recordAction(transaction, SERVICE, now, {
      action: "usage.hold",
      details: {
        reason: hold.reason,
        ...(current.hold && { earlierHoldAt: current.hold.at }),
      },
    });
    return hold;
  });
};
