import type { DatabasePool } from "slonik";
import { changeDonationTotals } from "../../../db/charities/donationTotals.ts";
import {
  deleteDonations,
  listTestDonors,
  lockOldTestDonations,
} from "../../../db/charities/oldTestDonations.ts";
import { deleteInBatches } from "../../deleteInBatches.ts";

/** Short transactions, because the account's test donations wait for the totals. */
const BATCH_DONATIONS = 50;

/** Deletes a batch of an account's donations and returns their number. */
const deleteBatch = (
  db: DatabasePool,
  accountId: string,
  before: Date,
  limit: number,
): Promise<number> =>
  db.transaction(async (transaction) => {
    const donations = await lockOldTestDonations(transaction, accountId, before, limit);
    // All at once, because a change of several months locks the all-time total last.
    await changeDonationTotals(
      transaction,
      { accountId, mode: "test" },
      donations.filter(({ refunded }) => !refunded),
      "subtract",
    );
    await deleteDonations(
      transaction,
      donations.map(({ id }) => id),
    );
    return donations.length;
  });

/**
 * Deletes the test donations that are older than a time, with their refunds and idempotency keys, and lowers the totals in
 * the same transaction. It may be interrupted and repeated.
 * @returns the number of deleted donations
 */
export const deleteOldTestDonations = async (
  db: DatabasePool,
  before: Date,
  signal: AbortSignal,
): Promise<number> => {
  let total = 0;
  for (const accountId of await listTestDonors(db)) {
    total += await deleteInBatches(
      (limit) => deleteBatch(db, accountId, before, limit),
      signal,
      BATCH_DONATIONS,
    );
  }
  return total;
};
