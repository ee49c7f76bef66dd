import type { Stripe } from "stripe";
import type { Control } from "../../stripeDouble/createControl.ts";

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
