import type { Stripe } from "stripe";
import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import type { BilledSubscription, InvoiceLine } from "../invoices/invoices.rules.ts";
import {
  idOf,
  itemsOfMeter,
  periodOf,
  trialOf,
  unlessMissing,
  withItems,
} from "./subscriptions.ts";
import type { ReadSubscription } from "./subscriptions.ts";

type Meters = Readonly<Record<Kind, { readonly id: string }>>;

/** Returns when the current period of a meter began. Of prices with different periods, the first may have the usage. */
const findOpenSince = (
  subscription: Stripe.Subscription,
  items: readonly Stripe.SubscriptionItem[],
): number | null => {
  const period = periodOf(subscription, items);
  if (period !== null) {
    return secondOf(period.start);
  }
  const starts = items.map(({ current_period_start: start }) => start);
  return starts.length === 0 || subscription.ended_at !== null ? null : Math.min(...starts);
};

const presentSubscription = (
  { subscription, items }: ReadSubscription,
  meters: Meters,
): BilledSubscription => {
  const { ended_at: endedAt } = subscription;
  const itemsOf = (kind: Kind) => itemsOfMeter(items, meters[kind].id);
  return {
    id: subscription.id,
    kinds: KINDS.filter((kind) => itemsOf(kind).length > 0),
    startedAt: subscription.start_date,
    endedAt,
    endedEarly: items.some(
      ({ current_period_start: start, current_period_end: end }) =>
        endedAt !== null && start < endedAt && endedAt < end,
    ),
    trial: trialOf(subscription),
    pausedBy: subscription.pause_collection?.behavior ?? null,
    openSince: {
      tree: findOpenSince(subscription, itemsOf("tree")),
      bottle: findOpenSince(subscription, itemsOf("bottle")),
    },
  };
};

const listSubscriptions = async (stripe: Stripe, customer: string) => {
  const read: ReadSubscription[] = [];
  const all = stripe.subscriptions.list({ customer, status: "all", limit: 100 });
  for await (const subscription of all) {
    read.push(await withItems(stripe, subscription));
  }
  return read;
};

/** Reads the lines of an invoice whose prices are on our meters. The tiers of a price are lines, which are added up. */
const readLines = async (
  stripe: Stripe,
  invoice: Stripe.Invoice,
  meters: Meters,
  meterOf: Map<string, string | null>,
): Promise<readonly InvoiceLine[]> => {
  const { finalized_at: finalizedAt, ...abandoned } = invoice.status_transitions;
  const subscription = invoice.parent?.subscription_details?.subscription;
  const { data, has_more: hasMore } = invoice.lines;
  const lines = hasMore
    ? await stripe.invoices
        .listLineItems(invoice.id, { limit: 100 })
        .autoPagingToArray({ limit: 10_000 })
    : data;
  const found = new Map<string, InvoiceLine>();
  for (const line of lines) {
    const price = line.pricing?.price_details?.price;
    // The first invoice of a subscription has a line of 0 units for the period that it begins.
    if (!subscription || price === undefined || line.period.end > invoice.created + 60) {
      continue;
    }
    const priceId = idOf(price);
    if (!meterOf.has(priceId)) {
      meterOf.set(priceId, (await stripe.prices.retrieve(priceId)).recurring?.meter ?? null);
    }
    const kind = KINDS.find((each) => meters[each].id === meterOf.get(priceId));
    if (kind === undefined) {
      continue;
    }
    const { start, end } = line.period;
    const key = `${priceId} ${start} ${end}`;
    found.set(key, {
      start,
      end,
      kind,
      subscriptionId: idOf(subscription),
      invoiceId: invoice.id,
      number: invoice.number,
      status: invoice.status ?? "draft",
      createdAt: invoice.created,
      autoAdvance: invoice.auto_advance ?? true,
      finalizedAt,
      abandonedAt: abandoned.voided_at ?? abandoned.marked_uncollectible_at,
      quantity: (found.get(key)?.quantity ?? 0) + (line.quantity ?? 0),
    });
  }
  return [...found.values()];
};

/** Reads all subscriptions of a customer, and the metered lines of its invoices since a second; nothing if it is unknown. */
export const readInvoices = async (
  stripe: Stripe,
  meters: Meters,
  customer: string,
  since: number,
) => {
  const read = await unlessMissing(listSubscriptions(stripe, customer));
  if (read === null) {
    return { subscriptions: [], lines: [] };
  }
  const meterOf = new Map(
    read.flatMap(({ items }) =>
      items.map(({ price }) => [price.id, price.recurring?.meter ?? null] as const),
    ),
  );
  const lines: InvoiceLine[] = [];
  const invoices = stripe.invoices.list({ customer, created: { gte: since }, limit: 100 });
  for await (const invoice of invoices) {
    lines.push(...(await readLines(stripe, invoice, meters, meterOf)));
  }
  return {
    subscriptions: read.map((each) => presentSubscription(each, meters)),
    lines: lines.toSorted((a, b) => a.start - b.start),
  };
};
