import type { DatabasePool } from "slonik";
import { ACCEPTED_AGE_MS } from "../../domain/billing/usage.ts";
import type { Clock } from "../../domain/clock.ts";
import type { RefundWindow } from "../../domain/registrations/decideRefund.ts";
import type { Owner } from "../../domain/registrations/registrations.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { resolveBillingCycle } from "../billing/resolveBillingCycle.ts";

/**
 * Returns what decides, beside the time, whether a registration can still be refunded. It may call the processor, so it is
 * no part of a transaction.
 */
export const readRefundWindow = async (
  deps: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  { accountId, mode, kind }: Owner,
): Promise<Omit<RefundWindow, "now">> => {
  const { cycle, processor } = await resolveBillingCycle(deps, accountId, mode, kind);
  return { cycle, acceptedAgeMs: ACCEPTED_AGE_MS[processor] };
};
