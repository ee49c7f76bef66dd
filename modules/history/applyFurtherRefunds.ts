import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { lockRegistrations } from "../registrations/refunds.sql.ts";
import {
  listFurtherRefunded,
  markImportedDonationsRefunded,
  raiseRefundedCounts,
} from "./furtherRefunds.sql.ts";
import { refundedOf } from "./importedRecords.rules.ts";
import type { ImportedEntry } from "./importedRecords.sql.ts";

/**
 * Applies refunds that another system made after its records were imported: totals and planted trees decrease. Nothing is
 * credited here, at the processor or to a store's balance, because the other system did that.
 * @param entries imported records, by their ids here, with what is refunded in total
 * @returns the ids of the records that changed
 */
export const applyFurtherRefunds = async (
  { db, clock, actor, owner }: OperatorContext & { readonly owner: AccountMode },
  entries: readonly ImportedEntry[],
): Promise<ReadonlySet<string>> => {
  if (entries.length === 0) {
    return new Set();
  }
  // One line may name a record by its id, and another by its key. The latest state has the most refunds.
  const inOrder = entries.toSorted((a, b) => refundedOf(a.record) - refundedOf(b.record));
  const latest = [...new Map(inOrder.map((entry) => [entry.id, entry])).values()];
  const refunds = latest.flatMap(({ id, record }) =>
    record.kind === "donation"
      ? []
      : [{ ...owner, kind: record.kind, id, refundedCount: record.refunded_count }],
  );
  const donationIds = latest.flatMap(({ id, record }) => (record.kind === "donation" ? [id] : []));
  return db.transaction(async (transaction) => {
    // The statement that waits for a concurrent refund would not see it.
    await lockRegistrations(transaction, refunds);
    const units = await listFurtherRefunded(transaction, refunds);
    const donations = await markImportedDonationsRefunded(transaction, donationIds);
    await releaseRefundedTrees(
      transaction,
      units
        .filter(({ kind }) => kind === PLANTED_KIND)
        .map(({ id, count }) => ({ registrationId: id, count })),
    );
    await raiseRefundedCounts(transaction, units);
    const refundedSince = [
      ...units,
      ...donations.map((donation) => Object.assign({ kind: "donation" }, donation)),
    ];
    if (refundedSince.length > 0) {
      await recordAction(transaction, actor, clock.now(), {
        action: "import.history",
        accountId: owner.accountId,
        details: { mode: owner.mode, refundedSince },
      });
    }
    return new Set(refundedSince.map(({ id }) => id));
  });
};
