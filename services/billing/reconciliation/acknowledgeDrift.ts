import type { DatabasePool } from "slonik";
import type { AcknowledgedDrift } from "../../../db/billing/reconciliation/acknowledgedDrift.ts";
import {
  customerOf,
  saveAcknowledgedDrift,
} from "../../../db/billing/reconciliation/acknowledgedDrift.ts";
import { findReconciliationDifference } from "../../../db/billing/reconciliation/reconciliations.ts";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import { DomainError } from "../../../domain/errors.ts";
import { recordAction } from "../../accounts/recordAction.ts";

/**
 * Acknowledges a stored difference of a minute, so that it is reported again only if it changes. It can be repeated.
 * @throws DomainError record_not_found if there is no such difference
 */
export const acknowledgeDrift = async (
  { db, clock, actor }: { readonly db: DatabasePool; readonly clock: Clock; readonly actor: Actor },
  differenceId: bigint,
  { reason, operator }: { readonly reason: string; readonly operator: string },
): Promise<AcknowledgedDrift> => {
  const difference = await findReconciliationDifference(db, differenceId);
  if (!difference) {
    throw new DomainError(
      "record_not_found",
      `difference ${differenceId} not found; see \`impact usage reconcile --last\``,
    );
  }
  const { billedBy, mode, meter, minute, ours, processor } = difference;
  const acknowledged: AcknowledgedDrift = {
    processor: billedBy,
    mode,
    meter,
    customer: customerOf(difference),
    minute,
    units: processor - ours,
  };
  return db.transaction(async (transaction) => {
    const now = clock.now();
    await saveAcknowledgedDrift(transaction, acknowledged, { reason, operator, now });
    await recordAction(
      transaction,
      actor,
      {
        action: "usage.acknowledge_drift",
        subject: String(differenceId),
        details: acknowledged,
      },
      now,
    );
    return acknowledged;
  });
};
