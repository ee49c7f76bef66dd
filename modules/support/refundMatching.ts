import type { RefundableRecord, RefundFilter } from "../registrations/refunds.sql.ts";
import { listRefundable } from "../registrations/refunds.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import { asRejection } from "../records/batches.rules.ts";
import { readWholeList } from "../records/readWholeList.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { BillingContext } from "../billing/context.ts";
import { refundAnyRegistration } from "./refundAnyRegistration.ts";

export type MatchingRefund = {
  readonly id: string;
  /** 0 if it could not be refunded; `error` has the reason. */
  readonly refundedCount: number;
  readonly error: string | null;
};

async function* readRefundable(
  { db }: BillingContext & OperatorContext,
  filter: RefundFilter,
): AsyncGenerator<RefundableRecord, void, void> {
  for (const kind of KINDS) {
    const pages = readWholeList((part) => listRefundable(db, filter, kind, part));
    for await (const page of pages) {
      yield* page;
    }
  }
}

/**
 * Refunds what remains of every matching registration, one after the other, so that an interrupted run can be repeated. One
 * that cannot be refunded does not stop the others.
 */
export async function* refundMatching(
  context: BillingContext & OperatorContext,
  filter: RefundFilter,
  { reason, isDryRun }: { readonly reason: string; readonly isDryRun: boolean },
): AsyncGenerator<MatchingRefund, void, void> {
  for await (const { id } of readRefundable(context, filter)) {
    try {
      const { refundedCount } = await refundAnyRegistration(context, {
        accountId: filter.accountId,
        id,
        count: null,
        reason,
        idempotencyKey: null,
        isDryRun,
      });
      yield { id, refundedCount, error: null };
    } catch (error) {
      yield { id, refundedCount: 0, error: asRejection(error).message };
    }
  }
}
