import type { Owner } from "../records/owner.rules.ts";
import { ACCEPTED_AGE_MS } from "../billing/usage.rules.ts";
import type { RefundWindow } from "./decideRefund.rules.ts";
import { findBillingCycles, resolveBillingCycle } from "../billing/resolveBillingCycle.ts";
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

/** Returns the windows of different owners by `ownerKey`, without those that only the processor knows. */
export const findRefundWindows = async (
  context: Parameters<typeof findBillingCycles>[0],
  owners: readonly Owner[],
): Promise<ReadonlyMap<string, RefundWindow>> =>
  new Map(
    [...(await findBillingCycles(context, owners))].map(([name, found]) => [name, windowOf(found)]),
  );
