import { randomBytes } from "node:crypto";
import type { Stripe } from "stripe";
import type { Clock } from "./clock.ts";

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
  /** Whether a report has named or counted the rejection. */
  isReported: boolean;
};

/** An event of API v2, as `GET /v2/core/events/:id` returns it. Its notification lacks `data`. */
export type ThinEvent = {
  readonly id: string;
  readonly object: "v2.core.event";
  readonly type: string;
  readonly created: string;
  readonly livemode: boolean;
  readonly related_object: {
    readonly id: string;
    readonly type: string;
    readonly url: string;
  } | null;
  readonly data: unknown;
};

export type Meter = Stripe.Billing.Meter;
export type Customer = Pick<
  Stripe.Customer,
  "id" | "object" | "created" | "livemode" | "name" | "email" | "metadata"
>;
export type Price = Pick<
  Stripe.Price,
  | "id"
  | "object"
  | "active"
  | "created"
  | "currency"
  | "livemode"
  | "lookup_key"
  | "metadata"
  | "nickname"
  | "type"
  | "unit_amount"
> & { readonly product: string; readonly recurring: Stripe.Price.Recurring };
export type StoredItem = {
  readonly id: string;
  readonly subscriptionId: string;
  readonly created: number;
  readonly price: Price;
  quantity: number | null;
  metadata: Stripe.Metadata;
};
/** From `start` on, every period of every item ends a whole number of intervals after the anchor, or with the trial. */
type Term = { readonly start: number; readonly anchor: number; readonly isTrial: boolean };

export type StoredSubscription = {
  readonly id: string;
  readonly customerId: string;
  readonly created: number;
  terms: Term[];
  status: Stripe.Subscription.Status;
  trialStart: number | null;
  trialEnd: number | null;
  pause: {
    readonly behavior: "keep_as_draft" | "mark_uncollectible" | "void";
    readonly resumesAt: number | null;
  } | null;
  cancelAtPeriodEnd: boolean;
  /** When its end was decided. */
  canceledAt: number | null;
  endedAt: number | null;
  /** The id of its schedule, and what the schedule still changes. */
  scheduleId: string | null;
  readonly phases: { readonly at: number; readonly apply: () => void }[];
  /** Everything that was due until this second has been done. */
  settledUntil: number;
  drafts: StoredInvoice[];
  metadata: Stripe.Metadata;
};

export type StoredLine = {
  readonly id: string;
  readonly itemId: string;
  readonly price: Price;
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
  readonly reason: "subscription_create" | "subscription_cycle" | "subscription_update";
  readonly takesUsageUntil: number;
  autoAdvance: boolean;
  status: "draft" | "open" | "paid" | "void" | "uncollectible";
  number: string | null;
  finalizedAt: number | null;
  paidAt: number | null;
  voidedAt: number | null;
  uncollectibleAt: number | null;
  readonly lines: readonly StoredLine[];
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
  readonly customers: Map<string, Customer>;
  /** Customers whose payments fail. */
  readonly declining: Set<string>;
  readonly prices: Map<string, Price>;
  readonly subscriptions: Map<string, StoredSubscription>;
  readonly items: Map<string, StoredItem>;
  readonly invoices: Map<string, StoredInvoice>;
  finalizedInvoices: number;
  readonly thinEvents: Map<string, ThinEvent>;
};

export const createState = (clock: Clock, settings: Settings): State => {
  // As at Stripe, no two accounts share an id.
  const double = randomBytes(4).toString("hex");
  let lastId = 0;
  return {
    clock,
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
    items: new Map(),
    invoices: new Map(),
    finalizedInvoices: 0,
    thinEvents: new Map(),
  };
};
