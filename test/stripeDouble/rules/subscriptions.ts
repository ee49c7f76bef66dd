import type { Stripe } from "stripe";
import { periodAt } from "./itemPeriods.ts";
import { pageOf } from "./pages.ts";
import { ErrorResponse, invalid, missing } from "../errorResponse.ts";
import type { RequestTypes } from "../requests/requestTypes.ts";
import type { Customer, Price, State, StoredItem, StoredSubscription } from "./state.ts";

type ItemRequest = NonNullable<RequestTypes["subscriptionUpdate"]["items"]>[number];
type PresentedItem = Pick<
  Stripe.SubscriptionItem,
  | "id"
  | "object"
  | "created"
  | "current_period_start"
  | "current_period_end"
  | "metadata"
  | "subscription"
> & { price: Price; quantity?: number };

const MAX_ITEMS = 20;

/** Merges metadata into what is stored; an empty value removes its key. */
const storedMetadata = (
  metadata: Stripe.Emptyable<Stripe.MetadataParam> | undefined,
  before: Stripe.Metadata = {},
): Stripe.Metadata =>
  metadata === "" || metadata === null
    ? {}
    : Object.fromEntries(
        Object.entries({ ...before, ...metadata })
          .filter(([, value]) => value !== "" && value !== null)
          .map(([key, value]) => [key, String(value)]),
      );

export const createCustomer = (
  { customers, nextId, clock }: State,
  request: RequestTypes["customerCreate"],
  id = nextId("cus"),
): Customer => {
  const customer: Customer = {
    id,
    object: "customer",
    created: clock.now(),
    livemode: false,
    name: request.name ?? null,
    email: request.email ?? null,
    metadata: storedMetadata(request.metadata),
  };
  customers.set(id, customer);
  return customer;
};

export const createPrice = (
  { prices, meters, nextId, clock }: State,
  request: RequestTypes["priceCreate"],
): Price => {
  const { recurring } = request;
  if (!recurring) {
    throw invalid("The double supports recurring prices only.", "parameter_missing", "recurring");
  }
  const { usage_type: usageType = "licensed", meter = null } = recurring;
  if (usageType === "metered" && meter === null) {
    throw invalid("A metered price must have a meter.", undefined, "recurring[meter]");
  }
  if (usageType !== "metered" && meter !== null) {
    throw invalid("Only a metered price can have a meter.", undefined, "recurring[meter]");
  }
  if (meter !== null && !meters.has(meter)) {
    throw missing("meter", meter, 400);
  }
  const price: Price = {
    id: nextId("price"),
    object: "price",
    active: true,
    created: clock.now(),
    currency: request.currency,
    livemode: false,
    lookup_key: request.lookup_key ?? null,
    metadata: storedMetadata(request.metadata),
    nickname: request.nickname ?? null,
    product: nextId("prod"),
    type: "recurring",
    unit_amount: request.unit_amount ?? null,
    recurring: {
      interval: recurring.interval,
      interval_count: recurring.interval_count ?? 1,
      meter,
      trial_period_days: null,
      usage_type: usageType,
    },
  };
  prices.set(price.id, price);
  return price;
};

const presentItem = (
  { clock }: State,
  subscription: StoredSubscription,
  item: StoredItem,
): PresentedItem => {
  const { start, end } = periodAt(subscription, item, subscription.canceledAt ?? clock.now());
  return {
    id: item.id,
    object: "subscription_item",
    created: item.created,
    current_period_start: start,
    current_period_end: end,
    metadata: item.metadata,
    price: item.price,
    subscription: item.subscriptionId,
    ...(item.quantity === null ? {} : { quantity: item.quantity }),
  };
};

const itemsOf = ({ items }: State, subscriptionId: string): StoredItem[] =>
  [...items.values()].filter((item) => item.subscriptionId === subscriptionId);

export const presentSubscription = (state: State, subscription: StoredSubscription): object => ({
  id: subscription.id,
  object: "subscription",
  created: subscription.created,
  start_date: subscription.created,
  billing_cycle_anchor: subscription.anchor,
  billing_cycle_anchor_config: null,
  billing_mode: { type: "flexible" },
  cancel_at_period_end: false,
  canceled_at: subscription.canceledAt,
  ended_at: subscription.canceledAt,
  customer: subscription.customerId,
  livemode: false,
  metadata: subscription.metadata,
  status: subscription.status,
  trial_start: null,
  trial_end: null,
  // A subscription contains only its first ten items.
  items: pageOf(
    `/v1/subscription_items?subscription=${subscription.id}`,
    itemsOf(state, subscription.id).map((item) => presentItem(state, subscription, item)),
    {},
  ),
});

export const getSubscription = (
  { subscriptions }: State,
  id: string,
  status: 400 | 404 = 404,
): StoredSubscription => {
  const subscription = subscriptions.get(id);
  if (!subscription) {
    throw missing("subscription", id, status);
  }
  return subscription;
};

/** Returns a subscription for a change; as at Stripe, a canceled one is not found. */
const getChangeable = (state: State, id: string, status: 400 | 404): StoredSubscription => {
  const subscription = getSubscription(state, id, status);
  if (subscription.status === "canceled") {
    throw missing("subscription", id, status);
  }
  return subscription;
};

/** Checks all entries and returns a function that stores them, so that an update changes everything or nothing. */
const planItems = (
  state: State,
  subscription: StoredSubscription,
  requests: readonly ItemRequest[],
): (() => void) => {
  const existing = itemsOf(state, subscription.id);
  const taken = new Set(existing.map(({ price }) => price.id));
  const changes = requests.map((request, index): (() => void) => {
    const at = `items[${index}]`;
    const item = request.id === undefined ? null : existing.find(({ id }) => id === request.id);
    if (item === undefined) {
      throw missing("subscription item", String(request.id), 400);
    }
    if (item && request.price !== undefined && request.price !== item.price.id) {
      throw new Error("The double does not support changing the price of an item.");
    }
    const priceId = item?.price.id ?? request.price;
    if (priceId === undefined) {
      throw invalid(`Missing required param: ${at}[price].`, "parameter_missing", `${at}[price]`);
    }
    const price = state.prices.get(priceId);
    if (!price) {
      throw missing("price", priceId, 400);
    }
    const metered = price.recurring.usage_type === "metered";
    if (metered && request.quantity !== undefined) {
      throw invalid("A metered item takes no quantity.", undefined, `${at}[quantity]`);
    }
    if (item) {
      return () => {
        item.quantity = request.quantity ?? item.quantity;
        item.metadata = storedMetadata(request.metadata, item.metadata);
      };
    }
    if (taken.has(priceId)) {
      throw invalid(`Cannot add multiple subscription items with the same plan: ${priceId}`);
    }
    taken.add(priceId);
    return () => {
      const id = state.nextId("si");
      state.items.set(id, {
        id,
        subscriptionId: subscription.id,
        created: state.clock.now(),
        price,
        quantity: metered ? null : (request.quantity ?? 1),
        metadata: storedMetadata(request.metadata),
      });
    };
  });
  if (taken.size > MAX_ITEMS) {
    throw invalid(`A subscription has at most ${MAX_ITEMS} items.`);
  }
  return () => {
    for (const change of changes) {
      change();
    }
  };
};

const assertPayable = (
  { declining }: State,
  customerId: string,
  behavior: string | undefined,
): void => {
  if (!declining.has(customerId)) {
    return;
  }
  if (behavior !== "error_if_incomplete") {
    throw new Error("The double supports failing payments with error_if_incomplete only.");
  }
  throw new ErrorResponse(402, "Your card was declined.", {
    type: "card_error",
    code: "card_declined",
  });
};

export const createSubscription = (
  state: State,
  request: RequestTypes["subscriptionCreate"],
  id = state.nextId("sub"),
): StoredSubscription => {
  const { customer, items, billing_cycle_anchor: anchor } = request;
  const now = state.clock.now();
  if (customer === undefined) {
    throw invalid("Missing required param: customer.", "parameter_missing", "customer");
  }
  if (!state.customers.has(customer)) {
    throw missing("customer", customer, 400);
  }
  if (anchor !== undefined && anchor < now) {
    throw invalid("billing_cycle_anchor must be in the future.", undefined, "billing_cycle_anchor");
  }
  const subscription: StoredSubscription = {
    id,
    customerId: customer,
    created: now,
    anchor: anchor ?? now,
    status: "active",
    canceledAt: null,
    metadata: storedMetadata(request.metadata),
  };
  const addItems = planItems(state, subscription, items);
  assertPayable(state, customer, request.payment_behavior);
  state.subscriptions.set(id, subscription);
  addItems();
  return subscription;
};

export const updateSubscription = (
  state: State,
  id: string,
  request: RequestTypes["subscriptionUpdate"],
): StoredSubscription => {
  const subscription = getChangeable(state, id, 404);
  const changeItems = planItems(state, subscription, request.items ?? []);
  if (request.items) {
    assertPayable(state, subscription.customerId, request.payment_behavior);
  }
  subscription.metadata = storedMetadata(request.metadata, subscription.metadata);
  changeItems();
  return subscription;
};

export const cancelSubscription = (state: State, id: string): StoredSubscription => {
  const subscription = getChangeable(state, id, 404);
  subscription.status = "canceled";
  subscription.canceledAt = state.clock.now();
  return subscription;
};

export const createSubscriptionItem = (
  state: State,
  request: RequestTypes["subscriptionItemCreate"],
): PresentedItem => {
  const { subscription: id, payment_behavior: behavior, proration_behavior: _, ...item } = request;
  const subscription = getChangeable(state, id, 400);
  const addItem = planItems(state, subscription, [item]);
  assertPayable(state, subscription.customerId, behavior);
  addItem();
  const added = itemsOf(state, id).at(-1);
  if (!added) {
    throw new Error("The item was not stored.");
  }
  return presentItem(state, subscription, added);
};

const getItem = ({ items }: State, id: string): StoredItem => {
  const item = items.get(id);
  if (!item) {
    throw missing("subscription item", id, 404);
  }
  return item;
};

export const readSubscriptionItem = (state: State, id: string): PresentedItem => {
  const item = getItem(state, id);
  return presentItem(state, getSubscription(state, item.subscriptionId), item);
};

export const updateSubscriptionItem = (
  state: State,
  id: string,
  request: RequestTypes["subscriptionItemUpdate"],
): PresentedItem => {
  const item = getItem(state, id);
  const { quantity, metadata, payment_behavior: behavior } = request;
  const subscription = getChangeable(state, item.subscriptionId, 404);
  const change = planItems(state, subscription, [
    {
      id,
      ...(quantity === undefined ? {} : { quantity }),
      ...(metadata === undefined ? {} : { metadata }),
    },
  ]);
  assertPayable(state, subscription.customerId, behavior);
  change();
  return presentItem(state, subscription, item);
};

export const listSubscriptionItems = (
  state: State,
  request: RequestTypes["subscriptionItemList"],
): object => {
  const subscription = getSubscription(state, request.subscription, 400);
  const items = itemsOf(state, subscription.id).map((item) =>
    presentItem(state, subscription, item),
  );
  return pageOf("/v1/subscription_items", items, request);
};
