import type { CommonQueryMethods } from "slonik";
import { deleteDailyCounts } from "../../../db/registrations/dailyCounts.ts";
import { daysBefore } from "../../../domain/durations.ts";

/** What is usual for an account is read from four weeks. */
const KEPT_DAYS = 60;

/** Deletes the counts of days that nothing reads any more, and returns their number. */
export const deleteOldDailyCounts = (db: CommonQueryMethods, now: Date): Promise<number> =>
  deleteDailyCounts(db, daysBefore(now, KEPT_DAYS));
