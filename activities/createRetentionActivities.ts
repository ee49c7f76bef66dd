import { Context } from "@temporalio/activity";
import type { DatabasePool } from "slonik";
import type { Clock } from "../domain/clock.ts";
import { deleteOldRecords } from "../services/billing/deleteOldRecords.ts";
import type { Retention } from "../services/billing/deleteOldRecords.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

/** The activity that deletes old records. It is idempotent: a repeated attempt deletes the rest. */
export const createRetentionActivities = (deps: {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly retention: Retention;
}) => ({
  deleteOldRecords: (): ReturnType<typeof deleteOldRecords> =>
    withHeartbeat(() => deleteOldRecords(deps, Context.current().cancellationSignal)),
});

export type RetentionActivities = ReturnType<typeof createRetentionActivities>;
