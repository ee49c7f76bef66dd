import { begin, periodAt, settle } from "./invoices.ts";
import type { Requests } from "./requests.ts";
import { ErrorResponse, findBy, invalid, pageOf } from "./responses.ts";
import type { Price, State, StoredItem, StoredSubscription } from "./state.ts";

type ItemRequest = NonNullable<Requests["subscriptionUpdate"]["items"]>[number];

export const createPrice = (
  { prices, nextId }: State,
  {
    meter,
    interval = "month",
  }: { readonly meter: string | null; readonly interval?: "month" | "year" | undefined },
): Price => {
  const price: Price = {
    id: nextId("price"),
    currency: "usd",
    unit_amount: 45,
    recurring: {
      interval,
      interval_count: 1,
      usage_type: meter === null ? "licensed" : "metered",
      meter,
    },
  };
  prices.set(price.id, price);
  return price;
};

const presentItem = ({ clock }: State, subscription: StoredSubscription, item: StoredItem) => {
  const { start, end } = periodAt(subscription, item, subscription.endedAt ?? clock.now());
  return {
    id: item.id,
    object: "subscription_item",
    created: item.created,
    current_period_start: start,
    current_period_end: end,
    price: item.price,
    subscription: subscription.id,
    ...(item.quantity === null ? {} : { quantity: item.quantity }),
  };
};

/** Returns a page of a subscription's items. */
const presentItems = (
  state: State,
  subscription: StoredSubscription,
  page: Parameters<typeof pageOf>[2] = {},
) =>
  pageOf(
    `/v1/subscription_items?subscription=${subscription.id}`,
    subscription.items.map((item) => presentItem(state, subscription, item)),
    page,
  );

export const presentSubscription = (state: State, subscription: StoredSubscription) => ({
  id: subscription.id,
  object: "subscription",
  created: subscription.created,
  start_date: subscription.created,
  billing_cycle_anchor: subscription.terms.at(-1)?.anchor,
  ended_at: subscription.endedAt,
  customer: subscription.customerId,
  status: subscription.status,
  pause_collection: subscription.pausedBy && { behavior: subscription.pausedBy },
  trial_start: subscription.trialStart,
  trial_end: subscription.trialEnd,
  // A subscription contains only its first ten items.
  items: presentItems(state, subscription),
});

/** Returns a subscription, brought up to now. */
export const getSubscription = (state: State, id: string, status: 400 | 404 = 404) => {
  const subscription = findBy(state.subscriptions, "subscription", id, status);
  settle(state, subscription);
  return subscription;
};

/** Lists the subscriptions of a customer, newest first. As at Stripe, canceled ones only if `all` are asked for. */
export const listSubscriptions = (
  state: State,
  { customer, status, ...page }: Requests["subscriptionList"],
): object => {
  findBy(state.customers, "customer", customer, 400);
  const found = [...state.subscriptions.keys()]
    .toReversed()
    .map((id) => getSubscription(state, id))
    .filter((each) => each.customerId === customer && (status ?? each.status) !== "canceled")
    .map((subscription) => presentSubscription(state, subscription));
  return pageOf("/v1/subscriptions", found, page);
};

/** Returns a subscription for a change; as at Stripe, a canceled one is not found. */
const getChangeable = (state: State, id: string): StoredSubscription => {
  const subscription = getSubscription(state, id);
  return subscription.status === "canceled"
    ? findBy(new Map(), "subscription", id, 404)
    : subscription;
};

/** Adds all items or, if one is wrong or the payment is declined, none. */
const addItems = (
  state: State,
  subscription: StoredSubscription,
  requests: readonly ItemRequest[],
): void => {
  const added = requests.map(({ price: priceId, quantity }): StoredItem => {
    const price = findBy(state.prices, "price", priceId, 400);
    const isMetered = price.recurring.usage_type === "metered";
    if (isMetered && quantity !== undefined) {
      throw invalid("A metered item takes no quantity.");
    }
    const created = state.clock.now();
    return { id: state.nextId("si"), created, price, quantity: isMetered ? null : (quantity ?? 1) };
  });
  const items = [...subscription.items, ...added];
  if (new Set(items.map(({ price }) => price.id)).size < items.length) {
    throw invalid("Cannot add multiple subscription items with the same plan.");
  }
  if (added.length > 0 && state.declining.has(subscription.customerId)) {
    const error = { type: "card_error", code: "card_declined" };
    throw new ErrorResponse(402, "Your card was declined.", error);
  }
  subscription.items = items;
};

/** @param anchor the unix second from which the periods are counted, if it is later than now */
export const createSubscription = (
  state: State,
  customerId: string,
  prices: readonly string[],
  anchor = state.clock.now(),
): StoredSubscription => {
  const now = state.clock.now();
  const subscription: StoredSubscription = {
    id: state.nextId("sub"),
    customerId: findBy(state.customers, "customer", customerId, 400).id,
    created: now,
    terms: [{ start: now, anchor, isTrial: false }],
    items: [],
    status: "active",
    trialStart: null,
    trialEnd: null,
    pausedBy: null,
    endsAtPeriodEnd: false,
    endedAt: null,
    settledUntil: now,
    drafts: [],
  };
  addItems(
    state,
    subscription,
    prices.map((price) => ({ price })),
  );
  state.subscriptions.set(subscription.id, subscription);
  begin(state, subscription);
  return subscription;
};

export const updateSubscription = (
  state: State,
  id: string,
  { items = [] }: Requests["subscriptionUpdate"],
): StoredSubscription => {
  const subscription = getChangeable(state, id);
  addItems(state, subscription, items);
  return subscription;
};

export const listSubscriptionItems = (
  state: State,
  { subscription, ...page }: Requests["subscriptionItemList"],
): object => presentItems(state, getSubscription(state, subscription, 400), page);
