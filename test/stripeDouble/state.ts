import { randomBytes } from "node:crypto";
import type { Stripe } from "stripe";

/** The double's time in whole unix seconds: the machine's own plus an offset, or a fixed time. */
export type Clock = {
  readonly now: () => number;
  readonly advance: (seconds: number) => void;
  /** Stops the clock at a unix second; `advance` still moves it. */
  readonly hold: (second: number) => void;
};

const createClock = (): Clock => {
  let heldAt: number | null = null;
  let offset = 0;
  return {
    now: () => Math.floor((heldAt ?? Date.now() / 1000) + offset),
    advance: (seconds) => {
      offset += seconds;
    },
    hold: (second) => {
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

export type State = {
  readonly clock: Clock;
  readonly settings: Settings;
  readonly nextId: (prefix: string) => string;
  readonly meters: Map<string, Meter>;
  readonly events: AcceptedEvent[];
  /** When each identifier was last accepted. */
  readonly identifiers: Map<string, number>;
  readonly customers: Map<string, { readonly id: string; readonly object: "customer" }>;
  /** Customers whose payments fail. */
  readonly declining: Set<string>;
  readonly prices: Map<string, Price>;
  readonly subscriptions: Map<string, StoredSubscription>;
  readonly invoices: Map<string, StoredInvoice>;
  readonly checkouts: Map<string, StoredCheckout>;
  /** The events of API v2, by id. Their notifications lack `data`. */
  readonly thinEvents: Map<string, { readonly id: string; readonly data: object }>;
};

export const createState = (settings: Settings): State => {
  // As at Stripe, no two accounts share an id.
  const double = randomBytes(4).toString("hex");
  let lastId = 0;
  return {
    clock: createClock(),
    settings,
    nextId: (prefix) => {
      lastId += 1;
      return `${prefix}_${double}${String(lastId).padStart(8, "0")}`;
    },
    meters: new Map(),
    events: [],
    identifiers: new Map(),
    customers: new Map(),
    declining: new Set(),
    prices: new Map(),
    subscriptions: new Map(),
    invoices: new Map(),
    checkouts: new Map(),
    thinEvents: new Map(),
  };
};
