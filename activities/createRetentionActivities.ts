import { Context } from "@temporalio/activity";
import type { DatabasePool } from "slonik";
import type { Clock } from "../domain/clock.ts";
import { recountAllTestRecords } from "../services/accounts/recountAllTestRecords.ts";
import { recordExpiredKeys } from "../services/accounts/recordExpiredKeys.ts";
import { deleteOldRecords } from "../services/billing/deleteOldRecords.ts";
import type { Retention } from "../services/billing/deleteOldRecords.ts";
import { deleteOldEvents } from "../services/events/deleteOldEvents.ts";
import { deleteOldTestDonations } from "../services/charities/donations/deleteOldTestDonations.ts";
import { deleteOldDailyCounts } from "../services/registrations/limits/deleteOldDailyCounts.ts";
import { deleteOldTestRegistrations } from "../services/registrations/deleteOldTestRegistrations.ts";
import { deleteOldTestResponses } from "../services/stores/records/deleteOldTestResponses.ts";
import { deleteOldDeliveries } from "../services/webhooks/deleteOldDeliveries.ts";
import { eraseOldResponses } from "../services/stores/privacy/eraseOldResponses.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

type RetentionDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly retention: Retention;
  /** How long the data of test mode are kept; 0 for ever. */
  readonly testDataDays: number;
};

const DAY_MS = 24 * 60 * 60 * 1000;

const deleteOldTestData = async (
  { db, clock, testDataDays }: RetentionDependencies,
  signal: AbortSignal,
) => {
  if (testDataDays === 0) {
    return null;
  }
  const before = new Date(clock.now().getTime() - testDataDays * DAY_MS);
  return {
    ...(await deleteOldTestRegistrations(db, before, signal)),
    donations: await deleteOldTestDonations(db, before, signal),
    responses: await deleteOldTestResponses(db, before, signal),
  };
};

/**
 * Creates the activity that deletes old records and test data, erases old personal data and records expired keys. It is
 * idempotent: a repeated attempt continues.
 */
export const createRetentionActivities = (deps: RetentionDependencies) => ({
  deleteOldRecords: () =>
    withHeartbeat(async () => {
      const signal = Context.current().cancellationSignal;
      return {
        ...(await deleteOldRecords(deps, signal)),
        events: await deleteOldEvents(deps, signal),
        webhookDeliveries: await deleteOldDeliveries(deps, signal),
        erasedResponses: await eraseOldResponses(deps, signal),
        dailyCounts: await deleteOldDailyCounts(deps.db, deps.clock.now()),
        testData: await deleteOldTestData(deps, signal),
        recountedAccounts: await recountAllTestRecords(deps.db, signal),
        expiredKeys: await recordExpiredKeys(deps, signal),
      };
    }),
});

export type RetentionActivities = ReturnType<typeof createRetentionActivities>;
