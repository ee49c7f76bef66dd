import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import type { MeterEvent } from "../../../modules/billing/processor.ts";
import { createStripeProcessor } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { StripeDoubleOptions } from "../../stripeDouble/startStripeDouble.ts";

export const never = new AbortController().signal;

/** Stripe may have recorded the event. */
export const unknown = { kind: "retry", outcomeUnknown: true } as const;

/** Stripe has not recorded the event. */
export const known = { kind: "retry", outcomeUnknown: false } as const;

/** Waits until the condition holds, at most until the test's timeout. */
export const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) {
    await delay(2);
  }
};

/** Starts a double with one subscriber and prepares a processor that uses it. */
export const setUpStripe = async (
  t: ExecutionContext,
  { timeoutMs = 60_000, ...options }: StripeDoubleOptions & { timeoutMs?: number } = {},
) => {
  const double = await startStripeDouble(t, options);
  const { control, stripe } = double;
  const processor = createStripeProcessor({ ...stripe, timeoutMs });
  await processor.prepare();
  const customer = control.addSubscriber({});
  let sent = 0;
  return {
    double,
    processor,
    customer,
    /** Returns a valid event of this customer with a new identifier. */
    event: (changes: Partial<MeterEvent> = {}): MeterEvent => {
      sent += 1;
      return {
        identifier: `u1:account:tree:${sent}`,
        customerId: customer.customerId,
        kind: "tree",
        quantity: 3,
        second: control.now() - 100,
        keyGeneration: 0,
        ...changes,
      };
    },
    /** Returns the billed units of this customer, over all meters and seconds. */
    billed: (): number =>
      control.usage({ customerId: customer.customerId }).reduce((sum, { value }) => sum + value, 0),
  };
};
