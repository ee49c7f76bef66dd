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

/** Starts a double with one subscriber and prepares a processor that uses it. */
export const setUpStripe = async (
  t: ExecutionContext,
  { timeoutMs = 60_000, ...options }: StripeDoubleOptions & { timeoutMs?: number } = {},
) => {
  const double = await startStripeDouble(t, options);
  const { control, stripe } = double;
  const processor = createStripeProcessor({ ...stripe, timeoutMs });
  await processor.prepare();
  const { customerId } = control.addSubscriber({});
  let sent = 0;
  return {
    double,
    processor,
    customerId,
    /** Returns a valid event of this customer with a new identifier. */
    event: (changes: Partial<MeterEvent> = {}): MeterEvent => {
      sent += 1;
      return {
        identifier: `u1:account:tree:${sent}`,
        customerId,
        kind: "tree",
        quantity: 3,
        second: control.now() - 100,
        keyGeneration: 0,
        ...changes,
      };
    },
    /** Returns the billed units of this customer, over all meters and seconds. */
    billed: (): number => control.units({ customerId }),
  };
};
