import type { Mode } from "../records/owner.rules.ts";
import type { ProcessorName } from "./usage.rules.ts";
import type { Billing } from "./createBilling.ts";
import { ProcessorUnavailableError } from "./processor.ts";
import type { BillingProcessor } from "./processor.ts";

/**
 * Returns the processor that has some usage.
 * @throws ProcessorUnavailableError if it is not configured
 */
export const getProcessor = (
  billing: Pick<Billing, "findProcessor">,
  name: ProcessorName,
  mode: Mode,
): BillingProcessor => {
  const processor = billing.findProcessor(name, mode);
  if (!processor) {
    throw new ProcessorUnavailableError(
      "STRIPE_SECRET_KEY is not set here, so nothing can be read from Stripe",
    );
  }
  return processor;
};
