import type { ExecutionContext } from "ava";
import type { MeterEvent } from "../../../modules/billing/processor.ts";
import type { Stripe } from "stripe";
import { createStripeProcessor } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import type { Control } from "../../stripeDouble/createControl.ts";
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

/** Changes the double's next response about a subscription. For what the double does not model. */
export const amendSubscription = async (
  { control, stripe }: { readonly control: Control; readonly stripe: Stripe },
  id: string,
  {
    subscription = {},
    item = {},
  }: {
    readonly subscription?: Partial<Stripe.Subscription>;
    /** Applies to all items. */
    readonly item?: Partial<Stripe.SubscriptionItem>;
  },
): Promise<void> => {
  const current = await stripe.subscriptions.retrieve(id);
  const data = current.items.data.map((each) => Object.assign(each, item));
  control.addFault({
    kind: "respond",
    method: "GET",
    path: `/v1/subscriptions/${id}`,
    status: 200,
    body: { ...current, ...subscription, items: { ...current.items, data } },
  });
};
