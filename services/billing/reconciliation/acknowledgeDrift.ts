import type { DatabasePool } from "slonik";
import type { AcknowledgedDrift } from "../../../db/billing/acknowledgedDrift.ts";
import { customerOf, saveAcknowledgedDrift } from "../../../db/billing/acknowledgedDrift.ts";
import { findReconciliationDifference } from "../../../db/billing/reconciliations.ts";
import type { Clock } from "../../../domain/clock.ts";
import { DomainError } from "../../../domain/errors.ts";

/**
 * Acknowledges a stored difference of a minute, so that it is reported again only if it changes. It can be repeated.
 * @throws DomainError record_not_found if there is no such difference
 */
export const acknowledgeDrift = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  differenceId: bigint,
  { reason, operator }: { readonly reason: string; readonly operator: string },
): Promise<AcknowledgedDrift> => {
  const difference = await findReconciliationDifference(db, differenceId);
  if (!difference) {
    throw new DomainError("record_not_found", `there is no difference ${differenceId}`);
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
  await saveAcknowledgedDrift(db, acknowledged, { reason, operator, now: clock.now() });
  return acknowledged;
};
