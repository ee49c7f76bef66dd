import type { BillingTarget } from "./usageFacts.sql.ts";
import type { Mode } from "../records/owner.rules.ts";
import type { Billing } from "./createBilling.ts";

/** Returns where an account's new usage is billed. The built-in ledger has no customers. */
export const currentTarget = (
  billing: Billing,
  stripeCustomerId: string | null,
  mode: Mode,
): BillingTarget => {
  const processor = billing.processorFor({ stripeCustomerId }, mode);
  return { processor, customerId: processor === "stripe" ? stripeCustomerId : null };
};
