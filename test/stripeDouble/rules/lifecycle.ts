import { invalid } from "../errorResponse.ts";
import { advanceInvoice, createInvoice } from "./invoices.ts";
import { itemsOf, periodAt } from "./itemPeriods.ts";
import type { RequestTypes } from "../requests/requestTypes.ts";
import type { State, StoredSubscription } from "./state.ts";

const nextPeriodEnd = (state: State, subscription: StoredSubscription): number =>
  Math.min(
    ...itemsOf(state, subscription.id).map(
      (item) => periodAt(subscription, item, Math.max(subscription.settledUntil, item.created)).end,
    ),
  );

const end = (subscription: StoredSubscription, at: number): void => {
  subscription.status = "canceled";
  subscription.endedAt = at;
  subscription.canceledAt ??= at;
};

/** Does what is due at a second: first the invoice of what has ended, under the pause that held until then. */
const passSecond = (state: State, subscription: StoredSubscription, at: number): void => {
  const isPeriodEnd = nextPeriodEnd(state, subscription) === at;
  if (isPeriodEnd) {
    createInvoice(state, subscription, at, { reason: "subscription_cycle" });
  }
  subscription.settledUntil = at;
  if (subscription.status === "trialing" && subscription.trialEnd === at) {
    subscription.status = "active";
  }
  if (subscription.pause?.resumesAt === at) {
    subscription.pause = null;
  }
  if (subscription.cancelAtPeriodEnd && isPeriodEnd) {
    end(subscription, at);
    return;
  }
  const [phase] = subscription.phases;
  if (phase?.at === at) {
    subscription.phases.shift();
    phase.apply();
  }
};

/** Brings a subscription and its invoices up to now: the clock may have passed several periods. */
export const settle = (state: State, subscription: StoredSubscription): void => {
  const now = state.clock.now();
  while (subscription.status !== "canceled") {
    const at = Math.min(
      nextPeriodEnd(state, subscription),
      subscription.pause?.resumesAt ?? Number.POSITIVE_INFINITY,
      subscription.phases[0]?.at ?? Number.POSITIVE_INFINITY,
    );
    if (at > now) {
      break;
    }
    passSecond(state, subscription, at);
  }
  for (const invoice of subscription.drafts) {
    advanceInvoice(state, invoice);
  }
  subscription.drafts = subscription.drafts.filter(({ status }) => status === "draft");
};

export const settleAll = (state: State): void => {
  for (const subscription of state.subscriptions.values()) {
    settle(state, subscription);
  }
};

const invoiceOpenUsage = (
  state: State,
  subscription: StoredSubscription,
  at: number,
  itemIds = itemsOf(state, subscription.id).map(({ id }) => id),
): void => createInvoice(state, subscription, at, { reason: "subscription_update", itemIds });

/** Ends a subscription now. Without an invoice, Stripe drops the usage of its last period. */
export const cancelNow = (
  state: State,
  subscription: StoredSubscription,
  { invoiceNow, at = state.clock.now() }: { readonly invoiceNow: boolean; readonly at?: number },
): void => {
  if (invoiceNow) {
    invoiceOpenUsage(state, subscription, at);
  }
  end(subscription, at);
};

/** Removes prices. The usage of their open periods is invoiced, as in the flexible billing mode, or dropped. */
export const removePrices = (
  state: State,
  subscription: StoredSubscription,
  priceIds: readonly string[],
  { invoiceNow, at = state.clock.now() }: { readonly invoiceNow: boolean; readonly at?: number },
): void => {
  const removed = itemsOf(state, subscription.id).filter(({ price }) =>
    priceIds.includes(price.id),
  );
  if (invoiceNow && removed.length > 0) {
    invoiceOpenUsage(
      state,
      subscription,
      at,
      removed.map(({ id }) => id),
    );
  }
  for (const { id } of removed) {
    state.items.delete(id);
  }
};

/** Begins a trial now or moves or ends the present one. What was used before is invoiced; a trial is free. */
export const changeTrial = (
  state: State,
  subscription: StoredSubscription,
  trialEnd: number | "now",
): void => {
  const now = state.clock.now();
  if (trialEnd !== "now" && trialEnd <= now) {
    throw invalid("trial_end must be in the future.", undefined, "trial_end");
  }
  const isTrialing = subscription.status === "trialing";
  const kept = subscription.terms.filter(({ start }) => start < now);
  if (trialEnd === "now") {
    if (isTrialing) {
      subscription.terms = [...kept, { start: now, anchor: now, isTrial: false }];
      subscription.trialEnd = now;
      subscription.status = "active";
      createInvoice(state, subscription, now, { reason: "subscription_cycle" });
      subscription.settledUntil = now;
    }
    return;
  }
  if (!isTrialing) {
    if (kept.length > 0) {
      invoiceOpenUsage(state, subscription, now);
    }
    kept.push({ start: now, anchor: now, isTrial: true });
    subscription.trialStart = now;
    subscription.settledUntil = now;
  }
  subscription.terms = [...kept, { start: trialEnd, anchor: trialEnd, isTrial: false }];
  subscription.trialEnd = trialEnd;
  subscription.status = "trialing";
};

const PAUSE_BEHAVIORS = ["keep_as_draft", "mark_uncollectible", "void"] as const;

/** @throws ErrorResponse if a pause is to end in the past */
export const parsePause = (
  { clock }: State,
  pause: RequestTypes["subscriptionUpdate"]["pause_collection"],
): StoredSubscription["pause"] => {
  if (!pause) {
    return null;
  }
  const { resumes_at: resumesAt = null } = pause;
  const behavior = PAUSE_BEHAVIORS.find((known) => known === pause.behavior);
  if (behavior === undefined) {
    throw invalid(`Invalid pause_collection[behavior]: ${pause.behavior}.`);
  }
  if (resumesAt !== null && resumesAt <= clock.now()) {
    throw invalid("resumes_at must be in the future.", undefined, "pause_collection[resumes_at]");
  }
  return { behavior, resumesAt };
};
