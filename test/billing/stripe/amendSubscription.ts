import type { Stripe } from "stripe";
import type { Control } from "../../stripeDouble/createControl.ts";

/**
 * Changes the double's next response about a subscription, and the next list of its items. For what the double does not
 * model, such as trials.
 */
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
  const respond = (path: string, body: unknown): void =>
    control.addFault({ kind: "respond", method: "GET", path, status: 200, body });
  const current = await stripe.subscriptions.retrieve(id);
  const { data } = await stripe.subscriptionItems.list({ subscription: id });
  respond(`/v1/subscriptions/${id}`, { ...current, ...subscription });
  respond("/v1/subscription_items", {
    object: "list",
    has_more: false,
    data: data.map((each) => Object.assign(each, item)),
  });
};
