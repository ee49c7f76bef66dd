import type { Billing } from "../../providers/billing/createBilling.ts";
import type { Context } from "../context.ts";

export type BillingContext = Context & { readonly billing: Billing };

export type SendingContext = BillingContext & {
  /** Milliseconds of the monotonic clock. */
  readonly monotonicMs?: () => number;
};
