import { randomBytes } from "node:crypto";
import type { Stripe } from "stripe";

/** The double's time in whole unix seconds: the machine's own plus an offset, or a fixed time. */
const createClock = () => {
  let heldAt: number | null = null;
  let offset = 0;
  return {
    now: () => Math.floor((heldAt ?? Date.now() / 1000) + offset),
    advance: (seconds: number): void => {
      offset += seconds;
    },
    /** Stops the clock at a unix second; `advance` still moves it. */
    hold: (second: number): void => {
      heldAt = second;
      offset = 0;
    },
  };
};

/** A meter event that was accepted with a 200. Times are unix seconds. */
export type AcceptedEvent = {
  readonly identifier: string;
  readonly idempotencyKey: string | null;
  readonly eventName: string;
  readonly meterId: string;
  readonly customerId: string;
  readonly value: number;
  readonly second: number;
  readonly receivedAt: number;
  /** The code of a later, asynchronous rejection; such an event is not billed. */
  rejectedWith: string | null;
  /** Whether a report has named the rejection. */
  isReported: boolean;
};

export type Meter = Pick<
  Stripe.Billing.Meter,
  | "id"
  | "created"
  | "status"
  | "display_name"
  | "event_name"
  | "event_time_window"
  | "default_aggregation"
  | "customer_mapping"
  | "value_settings"
>;

export type Price = Pick<Stripe.Price, "id" | "currency" | "unit_amount"> & {
  readonly recurring: {
    readonly interval: "month" | "year";
    readonly interval_count: 1;
    readonly usage_type: "licensed" | "metered";
    readonly meter: string | null;
  };
};

export type StoredItem = {
  readonly id: string;
  readonly created: number;
  readonly price: Price;
  readonly quantity: number | null;
};

/** From `start` on, every period of every item ends a whole number of intervals after the anchor, or with the trial. */
type Term = { readonly start: number; readonly anchor: number; readonly isTrial: boolean };

export type StoredSubscription = {
  readonly id: string;
  readonly customerId: string;
  readonly created: number;
  terms: readonly Term[];
  items: readonly StoredItem[];
  status: Stripe.Subscription.Status;
  trialStart: number | null;
  trialEnd: number | null;
  pausedBy: "keep_as_draft" | "mark_uncollectible" | "void" | null;
  endsAtPeriodEnd: boolean;
  endedAt: number | null;
  /** Everything that was due until this second has been done. */
  settledUntil: number;
  drafts: StoredInvoice[];
};

export type StoredLine = {
  readonly id: string;
  readonly item: StoredItem;
  readonly start: number;
  readonly end: number;
  /** Null while the invoice takes usage. */
  fixedQuantity: number | null;
};

export type StoredInvoice = {
  readonly id: string;
  readonly customerId: string;
  readonly subscriptionId: string;
  readonly created: number;
  readonly takesUsageUntil: number;
  autoAdvance: boolean;
  status: "draft" | "open" | "paid" | "void" | "uncollectible";
  number: string | null;
  finalizedAt: number | null;
  /** When it became void or uncollectible. */
  abandonedAt: number | null;
  readonly lines: readonly StoredLine[];
};

export type StoredCheckout = Pick<
  Stripe.Checkout.Session,
  "id" | "created" | "expires_at" | "amount_total" | "currency" | "client_reference_id" | "metadata"
> & {
  payment_status: "paid" | "unpaid";
  /** Set when its customer has submitted it. */
  payment_intent: string | null;
};

export type Settings = {
  /** The delay until an event appears in summaries. */
  summaryDelaySeconds: number;
  /** The time after a period's end in which its usage is still billed. */
  gracePeriodSeconds: number;
  /** The duration of each call; at 0, overlapping calls cannot be noticed. */
  latencyMs: number;
  /** The id of the Stripe account. */
  accountId: string;
};

export const createState = (settings: Settings) => {
  // As at Stripe, no two accounts share an id.
  const double = randomBytes(4).toString("hex");
  const events: AcceptedEvent[] = [];
  let lastId = 0;
  return {
    clock: createClock(),
    settings,
    nextId: (prefix: string): string => {
      lastId += 1;
      return `${prefix}_${double}${String(lastId).padStart(8, "0")}`;
    },
    meters: new Map<string, Meter>(),
    events,
    /** When each identifier was last accepted. */
    identifiers: new Map<string, number>(),
    customers: new Map<string, { readonly id: string; readonly object: "customer" }>(),
    /** Customers whose payments fail. */
    declining: new Set<string>(),
    prices: new Map<string, Price>(),
    subscriptions: new Map<string, StoredSubscription>(),
    invoices: new Map<string, StoredInvoice>(),
    checkouts: new Map<string, StoredCheckout>(),
    /** The events of API v2, by id. Their notifications lack `data`. */
    thinEvents: new Map<string, { readonly id: string; readonly data: object }>(),
  };
};

export type State = ReturnType<typeof createState>;
export type Clock = State["clock"];
