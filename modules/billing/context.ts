import type { DatabasePool } from "slonik";
import type { Billing } from "./createBilling.ts";
import type { Context } from "../../runtime/context.ts";

export type BillingContext = Context & {
  readonly billing: Billing;
  /** Milliseconds of the monotonic clock; by default, of the process's. */
  readonly monotonicMs?: () => number;
  /** The pool of work that reads much, which yields to recording; by default `db`. */
  readonly bulkDb?: DatabasePool;
};
