import type { CommonQueryMethods } from "slonik";
import { deleteDailyCounts } from "../../../db/registrations/dailyCounts.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** What is usual for an account is read from four weeks. */
const KEPT_DAYS = 60;

/** Deletes the counts of days that nothing reads any more, and returns their number. */
export const deleteOldDailyCounts = (db: CommonQueryMethods, now: Date): Promise<number> =>
  deleteDailyCounts(db, new Date(now.getTime() - KEPT_DAYS * DAY_MS));
