import type { DatabasePool } from "slonik";
import {
  lockDeployment,
  readDeployment,
  recordHold,
  recordRelease,
  recordServer,
} from "../../db/billing/deployment.ts";
import { findHold, RESTORE_HOLD } from "../../domain/billing/deployment.ts";
import type { Hold } from "../../domain/billing/deployment.ts";
import type { Clock } from "../../domain/clock.ts";

type Dependencies = { readonly db: DatabasePool; readonly clock: Clock };

/**
 * Holds all usage: nothing is sealed or sent. Calls that have begun may still end.
 * @returns the hold; an earlier one if usage was held already
 */
export const holdUsage = (
  { db, clock }: Dependencies,
  { reason, by }: { readonly reason: string; readonly by: string },
): Promise<Hold> =>
  db.transaction(async (transaction) => {
    const { hold } = await lockDeployment(transaction);
    if (hold) {
      return hold;
    }
    const recorded = { at: clock.now(), reason, by };
    await recordHold(transaction, recorded);
    return recorded;
  });

/**
 * Ends a hold, and records the current database server as the deployment's.
 * @returns the hold that has ended, or null if usage was not held
 */
export const releaseUsage = ({ db, clock }: Dependencies, by: string): Promise<Hold | null> =>
  db.transaction(async (transaction) => {
    const hold = findHold(await lockDeployment(transaction));
    await recordServer(transaction);
    if (hold) {
      await recordRelease(transaction, { at: clock.now(), by, hold });
    }
    return hold;
  });

/**
 * Records the server of a new deployment, and holds the usage of one whose server has changed.
 * @returns the hold, or null if usage is not held
 */
export const guardUsage = async ({ db, clock }: Dependencies): Promise<Hold | null> => {
  const deployment = await readDeployment(db);
  if (deployment.systemIdentifier !== null && (deployment.hold || !deployment.isServerChanged)) {
    return deployment.hold;
  }
  return db.transaction(async (transaction) => {
    const current = await lockDeployment(transaction);
    if (current.systemIdentifier === null) {
      await recordServer(transaction);
      return current.hold;
    }
    if (current.hold || !current.isServerChanged) {
      return current.hold;
    }
    const hold = { at: clock.now(), ...RESTORE_HOLD };
    await recordHold(transaction, hold);
    return hold;
  });
};
