import type { DatabasePool } from "slonik";
import type { Deleted } from "../../db/batching/deleteInBatches.ts";
import { subtractDonations } from "./donationTotals.sql.ts";
import { deleteDonations, listTestDonors, lockOldTestDonations } from "./donationBatches.sql.ts";
import { deleteInOrder } from "../../db/batching/deleteInBatches.ts";

/** Short transactions, because the account's test donations wait for the totals. */
const BATCH_DONATIONS = 50;

/** Deletes a batch of an account's donations. Returns their number and the time of the last one. */
const deleteBatch = (
  db: DatabasePool,
  accountId: string,
  span: { readonly from: Date | null; readonly before: Date },
  limit: number,
): Promise<Deleted> =>
  db.transaction(async (transaction) => {
    const donations = await lockOldTestDonations(transaction, accountId, span, limit);
    await subtractDonations(
      transaction,
      donations.flatMap(({ id, refunded }) => (refunded ? [] : id)),
    );
    await deleteDonations(
      transaction,
      donations.map(({ id }) => id),
    );
    return { deleted: donations.length, last: donations.at(-1)?.createdAt ?? null };
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
    total += await deleteInOrder<Date>(
      (limit, from) => deleteBatch(db, accountId, { from, before }, limit),
      signal,
      BATCH_DONATIONS,
    );
  }
  return total;
};
