import type { DatabasePool } from "slonik";
import type { Owner } from "../../domain/accounts/accounts.ts";
import { ACCEPTED_AGE_MS } from "../../domain/billing/usage.ts";
import type { Clock } from "../../domain/clock.ts";
import type { RefundWindow } from "../../domain/registrations/decideRefund.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { findBillingCycle, resolveBillingCycle } from "../billing/resolveBillingCycle.ts";
import type { ResolvedCycle } from "../billing/resolveBillingCycle.ts";

export type RefundWindowDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
};

const windowOf = ({ cycle, processor }: ResolvedCycle): RefundWindow => ({
  cycle,
  acceptedAgeMs: ACCEPTED_AGE_MS[processor],
});

/**
 * Returns what decides, beside the time, whether a registration can still be refunded. It may call the processor, so it is
 * no part of a transaction.
 */
export const readRefundWindow = async (
  deps: RefundWindowDependencies,
  { accountId, mode, kind }: Owner,
): Promise<RefundWindow> => windowOf(await resolveBillingCycle(deps, { accountId, mode, kind }));

/** Returns the same without calling the processor, or null if only the processor knows it. */
export const findRefundWindow = async (
  deps: RefundWindowDependencies,
  { accountId, mode, kind }: Owner,
): Promise<RefundWindow | null> => {
  const found = await findBillingCycle(deps, { accountId, mode, kind });
  return found && windowOf(found);
};
