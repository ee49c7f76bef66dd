import type { DatabaseTransactionConnection } from "slonik";
import { subtractDonations } from "../charities/donationTotals.sql.ts";
import {
  lockFurtherRefunded,
  markImportedDonationsRefunded,
  raiseRefundedCounts,
} from "./furtherRefunds.sql.ts";
import { subtractFromTotals } from "../registrations/totals.sql.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { KINDS, PLANTED_KIND } from "../records/owner.rules.ts";
import type { ImportedEntry } from "./importedRecords.sql.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import type { OperatorContext } from "../accounts/context.ts";

/** Limits the size of an audit entry. */
const REFUNDS_PER_TRANSACTION = 100;

/** What an audit entry says about one record. */
type AppliedRefund = { readonly id: string } & (
  | { readonly kind: Kind; readonly count: number }
  | { readonly kind: "donation"; readonly amountCents: number }
);

const applyChunk = async (
  transaction: DatabaseTransactionConnection,
  chunk: readonly ImportedEntry[],
  { clock, actor, owner }: OperatorContext & { readonly owner: AccountMode },
): Promise<readonly AppliedRefund[]> => {
  const units = await lockFurtherRefunded(
    transaction,
    chunk.flatMap(({ id, record }) =>
      record.kind === "donation" ? [] : [{ id, refundedCount: record.refunded_count }],
    ),
  );
  const trees = units.filter(({ kind }) => kind === PLANTED_KIND);
  await releaseRefundedTrees(
    transaction,
    trees.map(({ id, count }) => ({ registrationId: id, count })),
  );
  await raiseRefundedCounts(transaction, units);
  const donations = await markImportedDonationsRefunded(
    transaction,
    chunk.flatMap(({ id, record }) => (record.kind === "donation" && record.refunded ? [id] : [])),
  );
  const applied = [
    ...units.map(({ id, kind, count }) => ({ id, kind, count })),
    ...donations.map(({ id, amountCents }) => ({ id, kind: "donation" as const, amountCents })),
  ];
  if (applied.length > 0) {
    await recordAction(transaction, actor, clock.now(), {
      action: "import.history",
      accountId: owner.accountId,
      details: { mode: owner.mode, refundedSince: applied },
    });
  }
  await subtractDonations(
    transaction,
    donations.map(({ id }) => id),
  );
  // In the order in which a batch of registrations locks the totals.
  for (const kind of KINDS.toSorted()) {
    const refunded = units.filter((each) => each.kind === kind);
    if (refunded.length > 0) {
      await subtractFromTotals(transaction, { ...owner, kind }, refunded);
    }
  }
  return applied;
};

/**
 * Applies refunds that another system made after its records were imported: totals and planted trees decrease. Nothing is
 * credited here, at the processor or to a store's balance, because the other system did that.
 * @param entries imported records, by their ids here, with what is refunded in total
 * @returns the ids of the records that changed
 */
export const applyFurtherRefunds = async (
  context: OperatorContext & { readonly owner: AccountMode },
  entries: readonly ImportedEntry[],
): Promise<ReadonlySet<string>> => {
  const changed = new Set<string>();
  for (let start = 0; start < entries.length; start += REFUNDS_PER_TRANSACTION) {
    const chunk = entries.slice(start, start + REFUNDS_PER_TRANSACTION);
    const refunds = await context.db.transaction((transaction) =>
      applyChunk(transaction, chunk, context),
    );
    for (const { id } of refunds) {
      changed.add(id);
    }
  }
  return changed;
};
