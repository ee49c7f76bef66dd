import { Context } from "@temporalio/activity";
import type { DatabasePool } from "slonik";
import type { Clock } from "../domain/clock.ts";
import { deleteOldRecords } from "../services/billing/deleteOldRecords.ts";
import type { Retention } from "../services/billing/deleteOldRecords.ts";
import { eraseOldResponses } from "../services/stores/privacy/eraseOldResponses.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

/** The activity that deletes old records and erases old personal data. It is idempotent: a repeated attempt does the rest. */
export const createRetentionActivities = (deps: {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly retention: Retention;
}) => ({
  deleteOldRecords: () =>
    withHeartbeat(async () => {
      const signal = Context.current().cancellationSignal;
      return {
        ...(await deleteOldRecords(deps, signal)),
        erasedResponses: await eraseOldResponses(deps, signal),
      };
    }),
});

export type RetentionActivities = ReturnType<typeof createRetentionActivities>;
