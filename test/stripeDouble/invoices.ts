import type { Requests } from "./requests.ts";
import { findBy, pageOf } from "./responses.ts";
import type { State, StoredInvoice, StoredItem, StoredLine, StoredSubscription } from "./state.ts";

/** Returns the second some months after an anchor; in a month without that day, its last day. */
export const addMonths = (anchor: number, months: number): number => {
  const date = new Date(anchor * 1000);
  const day = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() + months);
  const lastDay = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  date.setUTCDate(Math.min(day, lastDay));
  return date.getTime() / 1000;
};

/**
 * Returns the item's half-open period that contains the second. As at Stripe, the first period starts when the item was
 * added, and a trial is one period.
 */
export const periodAt = ({ terms }: StoredSubscription, item: StoredItem, second: number) => {
  const at = terms.findLastIndex(({ start }) => start <= second);
  const term = terms[Math.max(0, at)];
  if (!term) {
    throw new Error("A subscription without terms has no periods.");
  }
  const next = terms[Math.max(0, at) + 1]?.start ?? Number.POSITIVE_INFINITY;
  if (term.isTrial) {
    return { start: Math.max(term.start, item.created), end: next, isTrial: true };
  }
  const interval = item.price.recurring.interval === "year" ? 12 : 1;
  let months = 0;
  while (addMonths(term.anchor, months) > second) {
    months -= interval;
  }
  while (addMonths(term.anchor, months + interval) <= second) {
    months += interval;
  }
  return {
    start: Math.max(addMonths(term.anchor, months), item.created, term.start),
    end: Math.min(addMonths(term.anchor, months + interval), next),
    isTrial: false,
  };
};

/** Returns the units of a line: never below 0, and fixed once the invoice takes no more usage. */
const quantityOf = (state: State, invoice: StoredInvoice, line: StoredLine): number => {
  if (line.fixedQuantity !== null) {
    return line.fixedQuantity;
  }
  const used = state.events.filter(
    (event) =>
      event.meterId === line.item.price.recurring.meter &&
      event.customerId === invoice.customerId &&
      event.rejectedWith === null &&
      event.second >= line.start &&
      event.second < line.end &&
      event.receivedAt <= invoice.takesUsageUntil,
  );
  const units = used.reduce((sum, { value }) => sum + value, 0);
  return Math.max(0, units);
};

const fixQuantities = (state: State, invoice: StoredInvoice): void => {
  for (const line of invoice.lines) {
    line.fixedQuantity = quantityOf(state, invoice, line);
  }
};

const finalize = (state: State, invoice: StoredInvoice, at: number): void => {
  fixQuantities(state, invoice);
  invoice.number = `DOUBLE-${invoice.id.slice(-4)}`;
  invoice.finalizedAt = at;
  invoice.autoAdvance = false;
  invoice.status = state.declining.has(invoice.customerId) ? "open" : "paid";
};

/**
 * Invoices what a subscription used in the periods that end at a second, and the next period of its other prices: at its
 * beginning, at the end of a period, or of the open periods at another second. What a pause of the collection makes of the
 * invoice is decided now; a later change of the pause does not change it.
 */
const createInvoice = (
  state: State,
  subscription: StoredSubscription,
  at: number,
  when: "beginning" | "period end" | "open periods",
): void => {
  const isFirst = when === "beginning";
  const lines = subscription.items.flatMap((item): StoredLine[] => {
    const isMetered = item.price.recurring.usage_type === "metered";
    const used = periodAt(subscription, item, isFirst ? at : at - 1);
    const isDue = when === "open periods" ? isMetered && used.end > at : isFirst || used.end === at;
    const end = isFirst ? used.end : at;
    const span = isMetered ? { start: used.start, end } : periodAt(subscription, item, at);
    if (!isDue || span.start >= span.end) {
      return [];
    }
    const isFree = used.isTrial || isFirst;
    const fixedQuantity = isMetered ? (isFree ? 0 : null) : (item.quantity ?? 1);
    return [{ id: state.nextId("il"), item, start: span.start, end: span.end, fixedQuantity }];
  });
  const pausedBy = isFirst ? null : subscription.pausedBy;
  const takesNoUsage = isFirst || pausedBy === "void" || pausedBy === "mark_uncollectible";
  const invoice: StoredInvoice = {
    id: state.nextId("in"),
    customerId: subscription.customerId,
    subscriptionId: subscription.id,
    created: at,
    takesUsageUntil: at + (takesNoUsage ? 0 : state.settings.gracePeriodSeconds),
    autoAdvance: pausedBy !== "keep_as_draft",
    status: "draft",
    number: null,
    finalizedAt: null,
    abandonedAt: null,
    lines,
  };
  state.invoices.set(invoice.id, invoice);
  subscription.drafts.push(invoice);
  if (takesNoUsage) {
    finalize(state, invoice, at);
  }
  if (pausedBy === "void" || pausedBy === "mark_uncollectible") {
    invoice.status = pausedBy === "void" ? "void" : "uncollectible";
    invoice.abandonedAt = at;
  }
};

export const begin = (state: State, subscription: StoredSubscription): void =>
  createInvoice(state, subscription, subscription.created, "beginning");

const end = (subscription: StoredSubscription, at: number): void => {
  subscription.status = "canceled";
  subscription.endedAt = at;
};

/** Brings a subscription and its invoices up to now: the clock may have passed several periods. */
export const settle = (state: State, subscription: StoredSubscription): void => {
  const now = state.clock.now();
  while (subscription.status !== "canceled") {
    const at = Math.min(
      ...subscription.items.map((item) => {
        const second = Math.max(subscription.settledUntil, item.created);
        return periodAt(subscription, item, second).end;
      }),
    );
    if (at > now) {
      break;
    }
    createInvoice(state, subscription, at, "period end");
    subscription.settledUntil = at;
    if (subscription.status === "trialing" && subscription.trialEnd === at) {
      subscription.status = "active";
    }
    if (subscription.endsAtPeriodEnd) {
      end(subscription, at);
    }
  }
  for (const invoice of subscription.drafts) {
    if (now >= invoice.takesUsageUntil && invoice.status === "draft") {
      fixQuantities(state, invoice);
      if (invoice.autoAdvance) {
        finalize(state, invoice, invoice.takesUsageUntil);
      }
    }
  }
  subscription.drafts = subscription.drafts.filter(({ status }) => status === "draft");
};

/** Ends a subscription now. Without an invoice, Stripe drops the usage of its last period. */
export const cancelNow = (
  state: State,
  subscription: StoredSubscription,
  { invoiceNow }: { readonly invoiceNow: boolean },
): void => {
  if (invoiceNow) {
    createInvoice(state, subscription, state.clock.now(), "open periods");
  }
  end(subscription, state.clock.now());
};

/** Begins a trial now. What was used before is invoiced; a trial is free. */
export const beginTrial = (state: State, subscription: StoredSubscription, trialEnd: number) => {
  const now = state.clock.now();
  const kept = subscription.terms.filter(({ start }) => start < now);
  if (kept.length > 0) {
    createInvoice(state, subscription, now, "open periods");
  }
  subscription.terms = [
    ...kept,
    { start: now, anchor: now, isTrial: true },
    { start: trialEnd, anchor: trialEnd, isTrial: false },
  ];
  subscription.settledUntil = now;
  subscription.trialStart = now;
  subscription.trialEnd = trialEnd;
  subscription.status = "trialing";
};

const presentLine = (state: State, invoice: StoredInvoice, line: StoredLine) => ({
  id: line.id,
  object: "line_item",
  period: { start: line.start, end: line.end },
  pricing: { type: "price_details", price_details: { price: line.item.price.id } },
  quantity: quantityOf(state, invoice, line),
});

export const listInvoiceLines = (
  state: State,
  id: string,
  request: Requests["invoiceListLines"] = {},
) => {
  const invoice = findBy(state.invoices, "invoice", id, 404);
  const lines = invoice.lines.map((line) => presentLine(state, invoice, line));
  return pageOf(`/v1/invoices/${id}/lines`, lines, request);
};

const presentInvoice = (state: State, invoice: StoredInvoice) => ({
  id: invoice.id,
  object: "invoice",
  auto_advance: invoice.autoAdvance,
  created: invoice.created,
  customer: invoice.customerId,
  number: invoice.number,
  parent: {
    type: "subscription_details",
    subscription_details: { subscription: invoice.subscriptionId },
  },
  status: invoice.status,
  status_transitions: {
    finalized_at: invoice.finalizedAt,
    marked_uncollectible_at: invoice.status === "uncollectible" ? invoice.abandonedAt : null,
    voided_at: invoice.status === "void" ? invoice.abandonedAt : null,
  },
  // An invoice contains only its first ten lines.
  lines: listInvoiceLines(state, invoice.id),
});

export const listInvoices = (
  state: State,
  { customer, created, ...page }: Requests["invoiceList"],
): object => {
  findBy(state.customers, "customer", customer, 400);
  for (const subscription of state.subscriptions.values()) {
    settle(state, subscription);
  }
  const found = [...state.invoices.values()]
    .filter((each) => each.customerId === customer && each.created >= (created?.gte ?? 0))
    .toSorted((a, b) => b.created - a.created)
    .map((invoice) => presentInvoice(state, invoice));
  return pageOf("/v1/invoices", found, page);
};
