import type { DatabaseTransactionConnection } from "slonik";
import {
  lockDeployment,
  readDeployment,
  doubtUsage,
  recordHold,
  recordServer,
  renewDeploymentId,
} from "./deployment.sql.ts";
import type { Deployment } from "./deployment.sql.ts";
import { SERVICE } from "../accounts/audit.rules.ts";
import { describeHold, isHoldMissing, RESTORE_HOLD } from "./deployment.rules.ts";
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
        `${describeHold(hold)}. It began at ${hold.at.toISOString()} and ends for all with \`impact usage resume\`, so no other hold was recorded`,
      );
    }
    const recorded = { at: await readDatabaseTime(transaction, clock), reason, by };
    await recordHold(transaction, recorded);
    await recordAction(transaction, actor, recorded.at, { action: "usage.hold" });
    return recorded;
  });

/**
 * Holds usage from now on, because a history may be lost in which it was sent. An earlier hold begins anew, for its old reason.
 * The deployment's row must be locked.
 */
const beginHoldAnew = async (
  transaction: DatabaseTransactionConnection,
  { hold: earlier }: Deployment,
  now: Date,
): Promise<Hold> => {
  const { reason, by } = earlier ?? RESTORE_HOLD;
  const hold = { at: now, reason, by };
  await recordHold(transaction, hold);
  await doubtUsage(transaction, now);
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
