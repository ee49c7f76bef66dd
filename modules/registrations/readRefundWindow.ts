import type { Owner } from "../records/owner.rules.ts";
import { ACCEPTED_AGE_MS } from "../billing/usage.rules.ts";
import type { RefundWindow } from "./decideRefund.rules.ts";
import { findBillingCycle, resolveBillingCycle } from "../billing/resolveBillingCycle.ts";
import type { ResolvedCycle } from "../billing/resolveBillingCycle.ts";
import type { BillingContext } from "../billing/context.ts";

const windowOf = ({ cycle, processor }: ResolvedCycle): RefundWindow => ({
  cycle,
  acceptedAgeMs: ACCEPTED_AGE_MS[processor],
});

/**
 * Returns what decides, beside the time, whether a registration can still be refunded. It may call the processor, so it is
 * no part of a transaction.
 */
export const readRefundWindow = async (
  context: BillingContext,
  { accountId, mode, kind }: Owner,
): Promise<RefundWindow> => windowOf(await resolveBillingCycle(context, { accountId, mode, kind }));

/** Returns the same without calling the processor, or null if only the processor knows it. */
export const findRefundWindow = async (
  context: BillingContext,
  { accountId, mode, kind }: Owner,
): Promise<RefundWindow | null> => {
  const found = await findBillingCycle(context, { accountId, mode, kind });
  return found && windowOf(found);
};
