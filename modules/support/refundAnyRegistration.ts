import type { AccountRegistration } from "../registrations/registrations.sql.ts";
import { findRegistration } from "../registrations/registrations.sql.ts";
import { recordNotFound } from "../records/recordIds.rules.ts";
import { getRecordId } from "../records/getRecordId.ts";
import { refundRegistration } from "../registrations/refundRegistration.ts";
import { refundStoreRegistration } from "../stores/refundFromStores.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { BillingContext } from "../billing/context.ts";
import type { RefundableRecord, RefundFilter } from "../registrations/refunds.sql.ts";
import { listRefundable } from "../registrations/refunds.sql.ts";
import { KINDS } from "../records/owner.rules.ts";
import { asRejection } from "../records/batches.rules.ts";
import { readWholeList } from "../records/readWholeList.ts";

type OperatorRefund = {
  readonly id: string;
  /** The account that has the registration; null for any. */
  readonly accountId: string | null;
  /** Null refunds all units that remain. */
  readonly count: number | null;
  readonly reason: string;
  /** Null for a refund that is not repeated. */
  readonly idempotencyKey: string | null;
  readonly isDryRun: boolean;
};

type AnyRefund = {
  readonly registration: AccountRegistration;
  readonly refundedCount: number;
  readonly replayed: boolean;
};

/**
 * Refunds units of any account's registration for an operator: an organization's usage is taken back, a store gets the
 * price back.
 * @throws DomainError record_not_found, usage_not_on_file, outside_billing_cycle or request_invalid
 */
export const refundAnyRegistration = async (
  context: BillingContext & OperatorContext,
  refund: OperatorRefund,
): Promise<AnyRefund> => {
  const registration = await findRegistration(
    context.db,
    await getRecordId(context.db, "registration", refund.id, refund.accountId),
  );
  if (!registration) {
    throw recordNotFound("registration", refund.id);
  }
  const request = { ...refund, id: registration.id };
  const { refundedCount, replayed } =
    registration.accountType === "store"
      ? await refundStoreRegistration(context, registration, request, refund)
      : await refundRegistration(context, registration, request, refund);
  return { registration, refundedCount, replayed };
};

type MatchingRefund = {
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
