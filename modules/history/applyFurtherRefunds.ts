import type { DatabaseTransactionConnection } from "slonik";
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

/** Limits the size of an audit entry. */
const REFUNDS_PER_TRANSACTION = 100;

type RefundContext = OperatorContext & { readonly owner: AccountMode };

const applyChunk = async (
  transaction: DatabaseTransactionConnection,
  chunk: readonly ImportedEntry[],
  { clock, actor, owner }: RefundContext,
): Promise<readonly string[]> => {
  const refunds = chunk.flatMap(({ id, record }) =>
    record.kind === "donation"
      ? []
      : [{ ...owner, kind: record.kind, id, refundedCount: record.refunded_count }],
  );
  // The statement that waits for a concurrent refund would not see it.
  await lockRegistrations(transaction, refunds);
  const units = await listFurtherRefunded(transaction, refunds);
  const donations = await markImportedDonationsRefunded(
    transaction,
    chunk.flatMap(({ id, record }) => (record.kind === "donation" && record.refunded ? [id] : [])),
  );
  await releaseRefundedTrees(
    transaction,
    units
      .filter(({ kind }) => kind === PLANTED_KIND)
      .map(({ id, count }) => ({ registrationId: id, count })),
  );
  await raiseRefundedCounts(transaction, units);
  const applied = [
    ...units,
    ...donations.map(({ id, amountCents }) => ({ id, kind: "donation", amountCents })),
  ];
  if (applied.length > 0) {
    await recordAction(transaction, actor, clock.now(), {
      action: "import.history",
      accountId: owner.accountId,
      details: { mode: owner.mode, refundedSince: applied },
    });
  }
  return applied.map(({ id }) => id);
};

/**
 * Applies refunds that another system made after its records were imported: totals and planted trees decrease. Nothing is
 * credited here, at the processor or to a store's balance, because the other system did that.
 * @param entries imported records, by their ids here, with what is refunded in total
 * @returns the ids of the records that changed
 */
export const applyFurtherRefunds = async (
  context: RefundContext,
  entries: readonly ImportedEntry[],
): Promise<ReadonlySet<string>> => {
  const changed: string[] = [];
  // One line may name a record by its id, and another by its key. The latest state has the most refunds.
  const inOrder = entries.toSorted((a, b) => refundedOf(a.record) - refundedOf(b.record));
  const each = [...new Map(inOrder.map((entry) => [entry.id, entry])).values()];
  for (let start = 0; start < each.length; start += REFUNDS_PER_TRANSACTION) {
    const chunk = each.slice(start, start + REFUNDS_PER_TRANSACTION);
    const ids = await context.db.transaction((transaction) =>
      applyChunk(transaction, chunk, context),
    );
    changed.push(...ids);
  }
  return new Set(changed);
};
