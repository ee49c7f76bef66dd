import type { DatabasePool } from "slonik";
import { v7 as newId } from "uuid";
import { insertRefund } from "../../db/registrations/refunds.ts";
import { addRefundedCount, lockRegistration } from "../../db/registrations/registrations.ts";
import { readTotals, subtractFromTotals } from "../../db/registrations/totals.ts";
import { insertRefundFacts } from "../../db/billing/usageFacts.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import { decideRefund, refundIdOf } from "../../domain/registrations/refund.ts";
import type { Owner, Registration, Totals } from "../../domain/registrations/registrations.ts";
import { ACCEPTED_AGE_MS, secondOf } from "../../domain/billing/usage.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import { resolveBillingCycle } from "../billing/resolveBillingCycle.ts";

export type Refunded = {
  /** The registration after the refund. */
  readonly registration: Registration;
  /** Units that this call refunded. */
  readonly refundedCount: number;
  readonly totals: Totals;
  /** The id of the workflow that completes all refunds of the registration. */
  readonly refundId: string;
};

/**
 * Refunds units of a registration: one transaction changes the record and the totals and adds a negative usage fact. A
 * null count refunds all units that remain.
 * @throws DomainError record_not_found, usage_not_on_file, outside_billing_cycle or request_invalid
 */
export const refundRegistration = async (
  deps: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  owner: Owner,
  request: { readonly id: string; readonly count: number | null; readonly reason: string | null },
): Promise<Refunded> => {
  const { db, clock } = deps;
  // Outside the transaction, since it may call the processor.
  const { cycle, processor } = await resolveBillingCycle(
    deps,
    owner.accountId,
    owner.mode,
    owner.kind,
  );
  return db.transaction(async (transaction) => {
    const found = await lockRegistration(transaction, owner, request.id);
    if (!found) {
      throw new DomainError("record_not_found", `failed to find ${owner.kind} registration`);
    }
    const { registration, hasUsage } = found;
    const now = clock.now();
    const count = decideRefund({ ...registration, kind: owner.kind, hasUsage }, request.count, {
      cycle,
      acceptedAgeMs: ACCEPTED_AGE_MS[processor],
      now,
    });
    const refundId = newId();
    await addRefundedCount(transaction, registration.id, count);
    await subtractFromTotals(transaction, owner, registration.createdAt, count);
    if (owner.kind === "tree") {
      await releaseRefundedTrees(transaction, registration.id, count);
    }
    await insertRefund(transaction, {
      id: refundId,
      registrationId: registration.id,
      count,
      reason: request.reason,
      createdAt: now,
    });
    await insertRefundFacts(
      transaction,
      { accountId: owner.accountId, mode: owner.mode, meter: owner.kind },
      {
        id: refundId,
        registrationId: registration.id,
        count,
        second: secondOf(registration.createdAt),
      },
    );
    return {
      registration: { ...registration, refundedCount: registration.refundedCount + count },
      refundedCount: count,
      totals: await readTotals(transaction, owner, now),
      refundId: refundIdOf(registration.id),
    };
  });
};
