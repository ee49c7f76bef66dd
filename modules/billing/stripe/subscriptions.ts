import { Stripe } from "stripe";
import { monthlyCycle, timeOf } from "../usage.rules.ts";
import type { Period, Span } from "../usage.rules.ts";
import { MISSING } from "../subscriptions.rules.ts";
import type { SubscriptionState, UnitPrice } from "../subscriptions.rules.ts";
import { isActiveSubscription } from "../../accounts/accounts.rules.ts";
import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";

/** Stripe's ids of the prices of donations: a flat monthly one and a metered one. */
export type DonationPrices = { readonly flat: string; readonly metered: string };

export const idOf = (object: string | { readonly id: string }): string =>
  typeof object === "string" ? object : object.id;

/** Stripe may set the times of an item and of its first period in different moments of one call. */
const SAME_CALL_SECONDS = 60;

const DAY_SECONDS = 86_400;

/** Returns one month before a period's end, on the anchor day of the subscription. */
const oneMonthBefore = (end: number, anchorDay: number): number => {
  const timeOfDay = end % DAY_SECONDS;
  const { start } = monthlyCycle(anchorDay, new Date((end - timeOfDay) * 1000 - 1));
  return secondOf(start) + timeOfDay;
};

/** The subscription object contains only its first ten items. */
const listItems = (stripe: Stripe, subscriptionId: string): Promise<Stripe.SubscriptionItem[]> =>
  stripe.subscriptionItems
    .list({ subscription: subscriptionId, limit: 100 })
    .autoPagingToArray({ limit: 10_000 });

export const withItems = async (stripe: Stripe, subscription: Stripe.Subscription) => {
  const { data, has_more: hasMore } = subscription.items;
  return { subscription, items: hasMore ? await listItems(stripe, subscription.id) : data };
};

export type ReadSubscription = Awaited<ReturnType<typeof withItems>>;

/**
 * Returns when the current period of an item began, in unix seconds. At Stripe, the period of an item that was added later
 * starts when it was added, although the same invoice has earlier usage. So the period of a monthly item starts one month before
 * its end, but not before the subscription, and not before the start or end of a trial. What was before the period of any other
 * item is invoiced, however short the period is: a trial of a running subscription begins one.
 */
const startOfPeriod = (
  subscription: Stripe.Subscription,
  { price, created, current_period_start: start, current_period_end: end }: Stripe.SubscriptionItem,
): number => {
  const wasAddedInPeriod = created >= start - SAME_CALL_SECONDS;
  const { interval, interval_count: count } = price.recurring ?? {};
  if (!wasAddedInPeriod || interval !== "month" || count !== 1) {
    return start;
  }
  const anchorDay =
    subscription.billing_cycle_anchor_config?.day_of_month ??
    new Date(subscription.billing_cycle_anchor * 1000).getUTCDate();
  const { start_date: firstStart, trial_start: trialStart, trial_end: trialEnd } = subscription;
  const boundaries = [firstStart, trialStart ?? firstStart, trialEnd ?? firstStart].filter(
    (boundary) => boundary <= start,
  );
  return Math.min(start, Math.max(oneMonthBefore(end, anchorDay), ...boundaries));
};

type Items = readonly Stripe.SubscriptionItem[];

export const itemsOfMeter = (items: Items, meterId: string | undefined): Items =>
  items.filter(({ price }) => meterId !== undefined && price.recurring?.meter === meterId);

/** Returns what a unit costs; null without a price on the meter, with several, or if tiers or packages decide. */
const unitPriceOf = ([item, ...others]: Items): UnitPrice | null => {
  if (!item || others.length > 0) {
    return null;
  }
  const { unit_amount_decimal: decimal, unit_amount: whole, currency, ...price } = item.price;
  const amount = decimal ?? whole;
  return amount === null || price.billing_scheme === "tiered" || price.transform_quantity
    ? null
    : { amount: String(amount), currency };
};

/**
 * Returns the current period of the items that are priced on the meter; null if there is none, or if they have different
 * ones. The last period of a subscription ends with it: Stripe invoices its usage then, and returns the regular end.
 */
export const periodOf = (subscription: Stripe.Subscription, items: Items): Period | null => {
  const ends = new Set(items.map(({ current_period_end: end }) => end));
  const [item] = items;
  if (!item || ends.size > 1) {
    return null;
  }
  const end = item.current_period_end;
  const start = startOfPeriod(subscription, item);
  const lastEnd = Math.min(end, subscription.ended_at ?? end);
  return start < lastEnd ? { start: timeOf(start), end: timeOf(lastEnd) } : null;
};

export const trialOf = ({ trial_start: start, trial_end: end }: Stripe.Subscription): Span | null =>
  start === null || end === null ? null : { start, end };

/** Returns what a call returns; null if Stripe does not have what it names. A list of what it names is a 400 then. */
export const unlessMissing = <Found>(call: Promise<Found>): Promise<Found | null> =>
  call.catch((error: unknown) => {
    const { statusCode, code } = error instanceof Stripe.errors.StripeError ? error : {};
    if (statusCode === 404 || code === "resource_missing") {
      return null;
    }
    throw error;
  });

/** Returns whether a customer does not exist, or was deleted. */
export const isMissingCustomer = async (stripe: Stripe, customerId: string): Promise<boolean> => {
  const customer = await unlessMissing(stripe.customers.retrieve(customerId));
  return customer === null || customer.deleted === true;
};

/** @param meters null for one that does not exist */
export const readSubscriptionState = async (
  stripe: Stripe,
  subscriptionId: string,
  meters: Readonly<Record<Kind, { readonly id: string } | null>>,
  donationPrices: DonationPrices | null,
): Promise<SubscriptionState> => {
  const found = await unlessMissing(stripe.subscriptions.retrieve(subscriptionId));
  const items = found === null ? [] : (await withItems(stripe, found)).items;
  const itemsOf = (kind: Kind): Items => itemsOfMeter(items, meters[kind]?.id);
  const prices = new Set(items.map(({ price }) => price.id));
  const trial = found && trialOf(found);
  return {
    customerId: found && idOf(found.customer),
    status: found?.status ?? MISSING,
    pausedBy: found?.pause_collection?.behavior ?? null,
    trial: trial && { start: timeOf(trial.start), end: timeOf(trial.end) },
    meteredKinds: KINDS.filter((kind) => itemsOf(kind).length > 0),
    unitPrices: { tree: unitPriceOf(itemsOf("tree")), bottle: unitPriceOf(itemsOf("bottle")) },
    periods: {
      tree: found && periodOf(found, itemsOf("tree")),
      bottle: found && periodOf(found, itemsOf("bottle")),
    },
    hasDonationItems:
      donationPrices && prices.has(donationPrices.flat) && prices.has(donationPrices.metered),
  };
};

/**
 * Adds the missing items of donations in one update of the subscription, which applies to all of them or to none. Stripe
 * refuses a price that a subscription has already, so concurrent updates add them once. An update that fails may have been
 * applied, by this call or by another one, so the items are read again.
 * @throws Error if an item is still missing
 */
export const provisionDonations = async (
  stripe: Stripe,
  subscriptionId: string,
  prices: DonationPrices | null,
): Promise<void> => {
  if (prices === null) {
    throw new Error("STRIPE_DONATION_FLAT_PRICE and STRIPE_DONATION_METERED_PRICE are not set.");
  }
  const { status } = await stripe.subscriptions.retrieve(subscriptionId);
  if (!isActiveSubscription(status)) {
    throw new Error(`Stripe's subscription ${subscriptionId} is ${status}.`);
  }
  const findMissing = async () => {
    const existing = await listItems(stripe, subscriptionId);
    // Stripe accepts no quantity for a metered item.
    const items = [{ price: prices.flat, quantity: 1 }, { price: prices.metered }];
    return items.filter(({ price }) => !existing.some((item) => item.price.id === price));
  };
  const items = await findMissing();
  if (items.length === 0) {
    return;
  }
  try {
    await stripe.subscriptions.update(subscriptionId, {
      items,
      proration_behavior: "none",
      payment_behavior: "error_if_incomplete",
    });
  } catch (cause) {
    if ((await findMissing()).length > 0) {
      throw new Error("Stripe did not add the donation items.", { cause });
    }
  }
};
