import type { BillingTarget } from "../../db/billing/usageFacts.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";

/** Returns where an account's new usage is billed. The built-in ledger has no customers. */
export const currentTarget = (
  billing: Billing,
  stripeCustomerId: string | null,
  mode: Mode,
): BillingTarget => {
  const processor = billing.processorFor({ stripeCustomerId }, mode);
  return { processor, customerId: processor === "stripe" ? stripeCustomerId : null };
};
