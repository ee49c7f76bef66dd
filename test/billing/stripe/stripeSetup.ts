import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import type {
  BillingCustomer,
  BillingProcessor,
  MeterEvent,
} from "../../../providers/billing/processor.ts";
import { createStripeProcessor } from "../../../providers/billing/stripe/createStripeProcessor.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { StripeDouble, StripeDoubleOptions } from "../../stripeDouble/startStripeDouble.ts";

export const never = new AbortController().signal;

/** The event may have arrived. */
export const unknown = { kind: "retry", outcomeUnknown: true } as const;

/** It has not. */
export const known = { kind: "retry", outcomeUnknown: false } as const;

/** Waits for what another party does; the test's own time limit ends a wait in vain. */
export const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) {
    await delay(2);
  }
};

export type StripeSetup = {
  readonly double: StripeDouble;
  readonly processor: BillingProcessor;
  readonly customer: BillingCustomer;
  /** A valid event of this customer with an identifier of its own. */
  readonly event: (changes?: Partial<MeterEvent>) => MeterEvent;
  /** The billed units of this customer, all meters and seconds together. */
  readonly billed: () => number;
};

/** A double with one subscriber, and a processor that is prepared against it. */
export const setUpStripe = async (
  t: ExecutionContext,
  { timeoutMs = 10_000, ...options }: StripeDoubleOptions & { timeoutMs?: number } = {},
): Promise<StripeSetup> => {
  const double = await startStripeDouble(options);
  t.teardown(double.close);
  const { url: apiBase, secretKey, control } = double;
  const processor = createStripeProcessor({ apiBase, secretKey, timeoutMs });
  await processor.prepare();
  const customer = { accountId: "account", ...control.addSubscriber({}) };
  let sent = 0;
  return {
    double,
    processor,
    customer,
    event: (changes = {}) => {
      sent += 1;
      return {
        identifier: `u1:account:tree:${sent}`,
        customer,
        meter: "tree",
        quantity: 3,
        second: control.now() - 100,
        keyGeneration: 0,
        ...changes,
      };
    },
    billed: () =>
      control.usage({ customerId: customer.customerId }).reduce((sum, { value }) => sum + value, 0),
  };
};
