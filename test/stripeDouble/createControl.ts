import type { Kind } from "../../domain/accounts/accounts.ts";
import type { EventEmitter } from "node:events";
import { METERS } from "../../providers/billing/stripe/meters.ts";
import type { Fault, Faults } from "./faults.ts";
import { invoiceLines } from "./itemPeriods.ts";
import type { InvoiceLine } from "./itemPeriods.ts";
import { createMeter } from "./meters.ts";
import type { AcceptedEvent, Meter, Settings, State } from "./state.ts";
import {
  createCustomer,
  createPrice,
  createSubscription,
  getSubscription,
} from "./subscriptions.ts";

/** One call as it was answered; the status is 0 where there was no answer. */
type RecordedCall = {
  readonly method: string;
  readonly path: string;
  readonly form: string;
  readonly idempotencyKey: string | null;
  readonly status: number;
  readonly replayed: boolean;
};

/** Billed units of one customer and meter at one second. */
type UsageEntry = {
  readonly customer: string;
  readonly meter: string;
  readonly second: number;
  readonly value: number;
};

/** What tests see and steer; every function takes one object, so that it works over HTTP too. */
export type Control = {
  readonly addFault: (fault: Fault) => void;
  readonly clearFaults: () => void;
  /** Lets the calls go on that a `hold` keeps. */
  readonly release: () => void;
  readonly advanceClock: (by: { seconds: number }) => void;
  /** Stops the clock at an instant (unix seconds). */
  readonly holdClock: (at: { second: number }) => void;
  readonly now: () => number;
  readonly changeSettings: (settings: Partial<Settings>) => void;
  readonly addCustomer: (customer: { id?: string }) => { customerId: string };
  /** The ids of our meters, which are created where missing. */
  readonly meterIds: () => Record<Kind, string>;
  /** A customer with a subscription, monthly unless told, that is priced on both of our meters. */
  readonly addSubscriber: (subscriber: {
    customerId?: string;
    billingCycleAnchor?: number;
    interval?: "month" | "year";
  }) => { customerId: string; subscriptionId: string };
  readonly declinePayments: (of: { customerId: string }) => void;
  readonly events: () => readonly AcceptedEvent[];
  readonly usage: (of: { customerId?: string }) => UsageEntry[];
  readonly invoices: (of: { subscriptionId: string }) => InvoiceLine[];
  readonly calls: () => readonly RecordedCall[];
  /** Calls that the double does not know or could not model: a test that ends with any of these has failed. */
  readonly problems: () => readonly string[];
  /** How many calls a `hold` keeps at this moment. */
  readonly held: () => number;
  /** How many calls were refused because another one of the same customer and meter was under way. */
  readonly overlaps: () => number;
};

/** What happened besides the changes of state. */
export type Seen = {
  readonly calls: RecordedCall[];
  readonly problems: string[];
  /** Emits `release`. */
  readonly held: EventEmitter;
  overlaps: number;
};

export const createControl = (state: State, faults: Faults, seen: Seen): Control => {
  const ourMeter = (kind: Kind): Meter => {
    const { eventName, displayName } = METERS[kind];
    return (
      [...state.meters.values()].find(({ event_name: name }) => name === eventName) ??
      createMeter(state, {
        event_name: eventName,
        display_name: displayName,
        default_aggregation: { formula: "sum" },
      })
    );
  };
  const addCustomer: Control["addCustomer"] = ({ id }) => ({
    customerId: createCustomer(state, {}, id).id,
  });
  return {
    addFault: faults.add,
    clearFaults: faults.clear,
    release: () => {
      seen.held.emit("release");
    },
    advanceClock: ({ seconds }) => {
      state.clock.advance(seconds);
    },
    holdClock: ({ second }) => {
      state.clock.hold(second);
    },
    now: state.clock.now,
    changeSettings: (settings) => {
      Object.assign(state.settings, settings);
    },
    addCustomer,
    meterIds: () => ({ tree: ourMeter("tree").id, bottle: ourMeter("bottle").id }),
    addSubscriber: ({ customerId: id, billingCycleAnchor: anchor, interval = "month" }) => {
      const { customerId } = addCustomer(id === undefined ? {} : { id });
      const items = [ourMeter("tree"), ourMeter("bottle")].map((meter) => ({
        price: createPrice(state, {
          currency: "usd",
          unit_amount: 45,
          product_data: { name: meter.display_name },
          recurring: { interval, usage_type: "metered", meter: meter.id },
        }).id,
      }));
      const { id: subscriptionId } = createSubscription(state, {
        customer: customerId,
        items,
        ...(anchor === undefined ? {} : { billing_cycle_anchor: anchor }),
      });
      return { customerId, subscriptionId };
    },
    declinePayments: ({ customerId }) => {
      state.declining.add(customerId);
    },
    events: () => state.events,
    usage: ({ customerId }) => {
      const entries = new Map<string, UsageEntry>();
      for (const {
        customerId: customer,
        eventName: meter,
        second,
        value,
        rejectedWith,
      } of state.events) {
        if (rejectedWith === null && (customerId ?? customer) === customer) {
          const key = `${customer} ${meter} ${second}`;
          const before = entries.get(key)?.value ?? 0;
          entries.set(key, { customer, meter, second, value: before + value });
        }
      }
      return [...entries.values()];
    },
    invoices: ({ subscriptionId }) => invoiceLines(state, getSubscription(state, subscriptionId)),
    calls: () => seen.calls,
    problems: () => seen.problems,
    held: () => seen.held.listenerCount("release"),
    overlaps: () => seen.overlaps,
  };
};
