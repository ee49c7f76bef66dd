import type { Stripe } from "stripe";
import { storedMetadata } from "./catalogue.ts";
import { createInvoice } from "./invoices.ts";
import { itemsOf, periodAt } from "./itemPeriods.ts";
import { cancelNow, changeTrial, parsePause, removePrices, settle } from "./lifecycle.ts";
import { pageOf } from "./pages.ts";
import { ErrorResponse, invalid, missing } from "../errorResponse.ts";
import type { RequestTypes } from "../requests/requestTypes.ts";
import type { Price, State, StoredItem, StoredSubscription } from "./state.ts";

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

const presentItem = (
  { clock }: State,
  subscription: StoredSubscription,
  item: StoredItem,
): PresentedItem => {
  const { start, end } = periodAt(subscription, item, subscription.endedAt ?? clock.now());
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

export const presentSubscription = (state: State, subscription: StoredSubscription) => ({
  id: subscription.id,
  object: "subscription",
  created: subscription.created,
  start_date: subscription.created,
  billing_cycle_anchor: subscription.terms.at(-1)?.anchor,
  billing_cycle_anchor_config: null,
  billing_mode: { type: "flexible" },
  cancel_at_period_end: subscription.cancelAtPeriodEnd,
  canceled_at: subscription.canceledAt,
  ended_at: subscription.endedAt,
  customer: subscription.customerId,
  livemode: false,
  metadata: subscription.metadata,
  status: subscription.status,
  pause_collection: subscription.pause && {
    behavior: subscription.pause.behavior,
    resumes_at: subscription.pause.resumesAt,
  },
  schedule: subscription.scheduleId,
  trial_start: subscription.trialStart,
  trial_end: subscription.trialEnd,
  // A subscription contains only its first ten items.
  items: pageOf(
    `/v1/subscription_items?subscription=${subscription.id}`,
    itemsOf(state, subscription.id).map((item) => presentItem(state, subscription, item)),
    {},
  ),
});

/** Returns a subscription, brought up to now. */
export const getSubscription = (
  state: State,
  id: string,
  status: 400 | 404 = 404,
): StoredSubscription => {
  const subscription = state.subscriptions.get(id);
  if (!subscription) {
    throw missing("subscription", id, status);
  }
  settle(state, subscription);
  return subscription;
};

/** Lists subscriptions, newest first. As at Stripe, canceled ones only if their status, or `all`, is asked for. */
export const listSubscriptions = (
  state: State,
  request: RequestTypes["subscriptionList"],
): object => {
  const { customer, status } = request;
  if (customer !== undefined && !state.customers.has(customer)) {
    throw missing("customer", customer, 400);
  }
  const found = [...state.subscriptions.keys()]
    .toReversed()
    .map((id) => getSubscription(state, id))
    .filter(
      (subscription) =>
        (customer ?? subscription.customerId) === subscription.customerId &&
        (status === "all" ||
          (status === undefined
            ? subscription.status !== "canceled"
            : status === "ended"
              ? ["canceled", "incomplete_expired"].includes(subscription.status)
              : subscription.status === status)),
    )
    .map((subscription) => presentSubscription(state, subscription));
  return pageOf("/v1/subscriptions", found, request);
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
  const trialEnd =
    request.trial_period_days === undefined
      ? (request.trial_end ?? null)
      : state.clock.now() + request.trial_period_days * 86_400;
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
    terms:
      trialEnd === null || trialEnd === "now"
        ? [{ start: now, anchor: anchor ?? now, isTrial: false }]
        : [],
    status: "active",
    trialStart: null,
    trialEnd: null,
    pause: null,
    cancelAtPeriodEnd: false,
    canceledAt: null,
    endedAt: null,
    scheduleId: null,
    phases: [],
    settledUntil: now,
    drafts: [],
    metadata: storedMetadata(request.metadata),
  };
  const addItems = planItems(state, subscription, items);
  assertPayable(state, customer, request.payment_behavior);
  if (trialEnd !== null) {
    changeTrial(state, subscription, trialEnd);
  }
  state.subscriptions.set(id, subscription);
  addItems();
  createInvoice(state, subscription, now, { reason: "subscription_create" });
  return subscription;
};

export const updateSubscription = (
  state: State,
  id: string,
  request: RequestTypes["subscriptionUpdate"],
): StoredSubscription => {
  const subscription = getChangeable(state, id, 404);
  const changeItems = planItems(state, subscription, request.items ?? []);
  const { pause_collection: pause, trial_end: trialEnd } = request;
  const parsedPause = pause === undefined ? subscription.pause : parsePause(state, pause);
  if (request.items) {
    assertPayable(state, subscription.customerId, request.payment_behavior);
  }
  if (trialEnd !== undefined) {
    changeTrial(state, subscription, trialEnd);
  }
  subscription.pause = parsedPause;
  if (request.cancel_at_period_end !== undefined) {
    subscription.cancelAtPeriodEnd = request.cancel_at_period_end;
    subscription.canceledAt = request.cancel_at_period_end ? state.clock.now() : null;
  }
  subscription.metadata = storedMetadata(request.metadata, subscription.metadata);
  changeItems();
  return subscription;
};

export const cancelSubscription = (
  state: State,
  id: string,
  { invoice_now: invoiceNow = false }: RequestTypes["subscriptionCancel"],
): StoredSubscription => {
  const subscription = getChangeable(state, id, 404);
  cancelNow(state, subscription, { invoiceNow });
  return subscription;
};

export const deleteSubscriptionItem = (
  state: State,
  id: string,
): { readonly id: string; readonly object: "subscription_item"; readonly deleted: true } => {
  const { price, subscriptionId } = getItem(state, id);
  const subscription = getChangeable(state, subscriptionId, 404);
  if (itemsOf(state, subscriptionId).length === 1) {
    throw invalid("A subscription must have at least one active item.");
  }
  removePrices(state, subscription, [price.id], { invoiceNow: true });
  return { id, object: "subscription_item", deleted: true };
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
