import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import type { Owner } from "../../records/owner.rules.ts";
import { readDeployment } from "../deployment.sql.ts";
import { isAttemptInProgress } from "../meterEvents.sql.ts";
import { isHoldMissing } from "../deployment.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { LONGEST_USAGE_LAG_MS } from "../processor.ts";
import { guardUsage } from "../holdUsage.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { leaseOf } from "../sending/attemptLease.ts";
import type { BillingContext } from "../context.ts";

/**
 * Returns how long the sums of live usage may lag. The built-in ledger was restored with the database. It billed all of
 * the lost history, too, if neither this history nor this process knows another processor.
 */
const readUsageLagMs = async ({ db, billing }: BillingContext): Promise<number> => {
  const { processor } = await readDeployment(db);
  return processor?.name === "ledger" && billing.liveProcessor === "ledger"
    ? 0
    : LONGEST_USAGE_LAG_MS;
};

/** @throws DomainError request_invalid if an attempt of the stream, or of any stream (null), may be in progress */
export const requireNoCall = async (
  db: CommonQueryMethods,
  stream: Owner | null,
  clock: Clock,
): Promise<void> => {
  const at = await readDatabaseTime(db, clock);
  if (await isAttemptInProgress(db, stream, leaseOf({ at }))) {
    throw invalidRequest(
      "a call to the processor may be in progress; repeat the command in 15 seconds",
    );
  }
};

/**
 * Returns when the hold began.
 * @throws DomainError request_invalid if usage is not held, or something that was sent may not be visible yet
 */
export const requireRest = async (context: BillingContext): Promise<Date> => {
  const { db, clock } = context;
  const heldAt = (await guardUsage({ db, clock }))?.at;
  if (!heldAt) {
    throw invalidRequest("usage is not held; hold it with `impact usage hold` first");
  }
  const visibleAt = new Date(heldAt.getTime() + (await readUsageLagMs(context)));
  if ((await readDatabaseTime(db, clock)) < visibleAt) {
    throw invalidRequest(
      `the processor's sums may lag until ${visibleAt.toISOString()}; repeat the command then`,
    );
  }
  await requireNoCall(db, null, clock);
  return heldAt;
};

/** @throws DomainError request_invalid if the hold has ended, or the database has changed since it began */
export const requireHold = async (
  transaction: DatabaseTransactionConnection,
  heldAt: Date,
): Promise<void> => {
  const deployment = await readDeployment(transaction);
  if (deployment.hold?.at.getTime() !== heldAt.getTime() || isHoldMissing(deployment)) {
    throw invalidRequest("the hold ended or restarted in the meantime; nothing more was settled");
  }
};
