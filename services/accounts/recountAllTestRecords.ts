import type { CommonQueryMethods } from "slonik";
import { listCountedAccounts, recountTestRecords } from "../../db/accounts/testRecordCounts.ts";

/**
 * Counts the test records of every account anew, because some were deleted, and a killed process may not have stored what
 * it had counted. A count can be too high by what is being written meanwhile, until the next time.
 * @returns the number of accounts
 */
export const recountAllTestRecords = async (
  db: CommonQueryMethods,
  signal: AbortSignal,
): Promise<number> => {
  const accountIds = await listCountedAccounts(db);
  for (const accountId of accountIds) {
    signal.throwIfAborted();
    await recountTestRecords(db, accountId);
  }
  return accountIds.length;
};
