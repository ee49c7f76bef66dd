import type { Stripe } from "stripe";
import { invalid, missing } from "../errorResponse.ts";
import type { RequestTypes } from "../requests/requestTypes.ts";
import { itemsOf, periodAt } from "./itemPeriods.ts";
import { pageOf } from "./pages.ts";
import type { State, StoredInvoice, StoredLine, StoredSubscription } from "./state.ts";

/** The parts of Stripe's invoices that the double presents. */
type PresentedInvoice = Pick<
  Stripe.Invoice,
  | "id"
  | "object"
  | "auto_advance"
  | "billing_reason"
  | "created"
  | "currency"
  | "customer"
  | "livemode"
  | "number"
  | "parent"
  | "period_start"
  | "period_end"
  | "status"
  | "status_transitions"
  | "total"
>;
type PresentedLine = Pick<
  Stripe.InvoiceLineItem,
  | "id"
  | "object"
  | "amount"
  | "currency"
  | "description"
  | "invoice"
  | "livemode"
  | "parent"
  | "period"
  | "quantity"
  | "subscription"
> & {
  readonly pricing: Omit<Stripe.InvoiceLineItem.Pricing, "unit_amount_decimal"> & {
    readonly unit_amount_decimal: string;
  };
};

/** Returns the units of a line: never below 0, and fixed once the invoice takes no more usage. */
const quantityOf = (state: State, invoice: StoredInvoice, line: StoredLine): number => {
  if (line.fixedQuantity !== null) {
    return line.fixedQuantity;
  }
  const used = state.events
    .filter(
      (event) =>
        event.meterId === line.price.recurring.meter &&
        event.customerId === invoice.customerId &&
        event.rejectedWith === null &&
        event.second >= line.start &&
        event.second < line.end &&
        event.receivedAt <= invoice.takesUsageUntil,
    )
    .reduce((sum, { value }) => sum + value, 0);
  return Math.max(0, used);
};

const fixQuantities = (state: State, invoice: StoredInvoice): void => {
  for (const line of invoice.lines) {
    line.fixedQuantity = quantityOf(state, invoice, line);
  }
};

const finalize = (state: State, invoice: StoredInvoice, at: number): void => {
  fixQuantities(state, invoice);
  state.finalizedInvoices += 1;
  invoice.number = `DOUBLE-${String(state.finalizedInvoices).padStart(4, "0")}`;
  invoice.finalizedAt = at;
  invoice.status = "open";
  invoice.autoAdvance = false;
  if (!state.declining.has(invoice.customerId)) {
    invoice.status = "paid";
    invoice.paidAt = at;
  }
};

const voidInvoice = (invoice: StoredInvoice, at: number): void => {
  invoice.status = "void";
  invoice.voidedAt = at;
};

const markUncollectible = (invoice: StoredInvoice, at: number): void => {
  invoice.status = "uncollectible";
  invoice.uncollectibleAt = at;
};

/** Ends a draft as the subscription's pause demands, or finalizes it once it takes no more usage. */
export const advanceInvoice = (state: State, invoice: StoredInvoice): void => {
  const now = state.clock.now();
  if (now >= invoice.takesUsageUntil && invoice.status === "draft") {
    fixQuantities(state, invoice);
    if (invoice.autoAdvance) {
      finalize(state, invoice, invoice.takesUsageUntil);
    }
  }
};

/**
 * Invoices what the subscription used in the periods that end at a second, and the next period of its other prices. What
 * a pause of the collection makes of the invoice is decided now; a later change of the pause does not change it.
 */
export const createInvoice = (
  state: State,
  subscription: StoredSubscription,
  at: number,
  {
    reason,
    itemIds = null,
  }: {
    readonly reason: "subscription_create" | "subscription_cycle" | "subscription_update";
    /** Null for the items whose period ends at that second. */
    readonly itemIds?: readonly string[] | null;
  },
): void => {
  const isFirst = reason === "subscription_create";
  const lines = itemsOf(state, subscription.id).flatMap((item): StoredLine[] => {
    const isMetered = item.price.recurring.usage_type === "metered";
    const used = periodAt(subscription, item, isFirst ? at : at - 1);
    // An update at the end of a period finds that the period is invoiced.
    const isDue =
      itemIds === null
        ? isFirst || used.end === at
        : isMetered && itemIds.includes(item.id) && used.end > at;
    if (!isDue) {
      return [];
    }
    const end = isFirst ? used.end : at;
    const span = isMetered ? { start: used.start, end } : periodAt(subscription, item, at);
    if (span.start >= span.end) {
      return [];
    }
    const isFree = used.isTrial || (isFirst && isMetered);
    return [
      {
        id: state.nextId("il"),
        itemId: item.id,
        price: item.price,
        start: span.start,
        end: span.end,
        fixedQuantity: isMetered ? (isFree ? 0 : null) : (item.quantity ?? 1),
      },
    ];
  });
  const pause = isFirst ? null : (subscription.pause?.behavior ?? null);
  const takesNoUsage = isFirst || pause === "void" || pause === "mark_uncollectible";
  const invoice: StoredInvoice = {
    id: state.nextId("in"),
    customerId: subscription.customerId,
    subscriptionId: subscription.id,
    created: at,
    reason,
    takesUsageUntil: at + (takesNoUsage ? 0 : state.settings.gracePeriodSeconds),
    autoAdvance: pause !== "keep_as_draft",
    status: "draft",
    number: null,
    finalizedAt: null,
    paidAt: null,
    voidedAt: null,
    uncollectibleAt: null,
    lines,
  };
  state.invoices.set(invoice.id, invoice);
  subscription.drafts.push(invoice);
  if (takesNoUsage) {
    finalize(state, invoice, at);
  }
  if (pause === "void") {
    voidInvoice(invoice, at);
  }
  if (pause === "mark_uncollectible") {
    markUncollectible(invoice, at);
  }
};

const presentLine = (state: State, invoice: StoredInvoice, line: StoredLine): PresentedLine => {
  const quantity = quantityOf(state, invoice, line);
  const unitAmount = line.price.unit_amount ?? 0;
  return {
    id: line.id,
    object: "line_item",
    amount: quantity * unitAmount,
    currency: line.price.currency,
    description: null,
    invoice: invoice.id,
    livemode: false,
    parent: {
      type: "subscription_item_details",
      invoice_item_details: null,
      subscription_item_details: {
        invoice_item: null,
        proration: false,
        proration_details: null,
        subscription: invoice.subscriptionId,
        subscription_item: line.itemId,
      },
    },
    period: { start: line.start, end: line.end },
    pricing: {
      type: "price_details",
      price_details: { price: line.price.id, product: line.price.product },
      unit_amount_decimal: String(unitAmount),
    },
    quantity,
    subscription: invoice.subscriptionId,
  };
};

export const presentInvoice = (
  state: State,
  invoice: StoredInvoice,
): PresentedInvoice & { readonly lines: object } => {
  const lines = invoice.lines.map((line) => presentLine(state, invoice, line));
  return {
    id: invoice.id,
    object: "invoice",
    auto_advance: invoice.autoAdvance,
    billing_reason: invoice.reason,
    created: invoice.created,
    currency: "usd",
    customer: invoice.customerId,
    livemode: false,
    number: invoice.number,
    parent: {
      type: "subscription_details",
      quote_details: null,
      subscription_details: { metadata: {}, subscription: invoice.subscriptionId },
    },
    period_start: Math.min(invoice.created, ...invoice.lines.map(({ start }) => start)),
    period_end: invoice.created,
    status: invoice.status,
    status_transitions: {
      finalized_at: invoice.finalizedAt,
      marked_uncollectible_at: invoice.uncollectibleAt,
      paid_at: invoice.paidAt,
      voided_at: invoice.voidedAt,
    },
    total: lines.reduce((sum, { amount }) => sum + amount, 0),
    // An invoice contains only its first ten lines.
    lines: pageOf(`/v1/invoices/${invoice.id}/lines`, lines, {}),
  };
};

export const getInvoice = ({ invoices }: State, id: string): StoredInvoice => {
  const invoice = invoices.get(id);
  if (!invoice) {
    throw missing("invoice", id, 404);
  }
  return invoice;
};

export const listInvoiceLines = (
  state: State,
  id: string,
  request: RequestTypes["invoiceListLines"],
): object => {
  const invoice = getInvoice(state, id);
  const lines = invoice.lines.map((line) => presentLine(state, invoice, line));
  return pageOf(`/v1/invoices/${id}/lines`, lines, request);
};

export const listInvoices = (state: State, request: RequestTypes["invoiceList"]): object => {
  const { customer, subscription, status, created } = request;
  if (customer !== undefined && !state.customers.has(customer)) {
    throw missing("customer", customer, 400);
  }
  if (subscription !== undefined && !state.subscriptions.has(subscription)) {
    throw missing("subscription", subscription, 400);
  }
  const range: Stripe.RangeQueryParam =
    typeof created === "object"
      ? created
      : created === undefined
        ? {}
        : { gte: created, lte: created };
  const found = [...state.invoices.values()]
    .filter(
      (invoice) =>
        (customer ?? invoice.customerId) === invoice.customerId &&
        (subscription ?? invoice.subscriptionId) === invoice.subscriptionId &&
        (status ?? invoice.status) === invoice.status &&
        invoice.created >= (range.gte ?? 0) &&
        invoice.created > (range.gt ?? -1) &&
        invoice.created <= (range.lte ?? Number.POSITIVE_INFINITY) &&
        invoice.created < (range.lt ?? Number.POSITIVE_INFINITY),
    )
    .toSorted((a, b) => b.created - a.created)
    .map((invoice) => presentInvoice(state, invoice));
  return pageOf("/v1/invoices", found, request);
};

/** What an owner of the account can do with an invoice, and the statuses in which Stripe allows it. */
const CHANGES = {
  finalize: { from: ["draft"], apply: finalize },
  void: {
    from: ["open", "uncollectible"],
    apply: (_: State, invoice: StoredInvoice, at: number) => voidInvoice(invoice, at),
  },
  mark_uncollectible: {
    from: ["open"],
    apply: (_: State, invoice: StoredInvoice, at: number) => markUncollectible(invoice, at),
  },
} as const;

export const changeInvoice = (state: State, id: string, change: keyof typeof CHANGES): object => {
  const invoice = getInvoice(state, id);
  const { from, apply } = CHANGES[change];
  if (!from.some((status) => status === invoice.status)) {
    throw invalid(`You cannot ${change.replace("_", " ")} an invoice that is ${invoice.status}.`);
  }
  apply(state, invoice, state.clock.now());
  return presentInvoice(state, invoice);
};

export type InvoiceLine = {
  readonly item: string;
  readonly price: string;
  readonly meter: string;
  readonly start: number;
  readonly end: number;
  /** Billed units: never below 0, and fixed once `finalized`. */
  readonly quantity: number;
  readonly finalized: boolean;
  readonly invoice: string;
  readonly number: string | null;
  readonly status: StoredInvoice["status"];
};

/** Returns the metered lines of the invoices of a subscription's past periods, oldest first. */
export const meteredLines = (state: State, subscriptionId: string): InvoiceLine[] =>
  [...state.invoices.values()]
    .filter(
      (invoice) =>
        invoice.subscriptionId === subscriptionId && invoice.reason !== "subscription_create",
    )
    .flatMap((invoice) =>
      invoice.lines.flatMap((line) =>
        line.price.recurring.meter === null
          ? []
          : [
              {
                item: line.itemId,
                price: line.price.id,
                meter: line.price.recurring.meter,
                start: line.start,
                end: line.end,
                quantity: quantityOf(state, invoice, line),
                finalized: invoice.finalizedAt !== null,
                invoice: invoice.id,
                number: invoice.number,
                status: invoice.status,
              },
            ],
      ),
    );
