import type { Kind } from "../../modules/records/owner.rules.ts";
import { METERS } from "../../modules/billing/stripe/meters.ts";
import type { Fault, Faults } from "./faults.ts";
import { createCustomer, createPrice } from "./rules/catalogue.ts";
import { changeInvoice, meteredLines } from "./rules/invoices.ts";
import type { InvoiceLine } from "./rules/invoices.ts";
import { cancelNow, changeTrial, removePrices, settleAll } from "./rules/lifecycle.ts";
import { createErrorReports } from "./rules/errorReports.ts";
import type { ReportOptions } from "./rules/errorReports.ts";
import { createMeter } from "./rules/meters.ts";
import type { Observations, RecordedCall } from "./observations.ts";
import type { AcceptedEvent, Meter, Settings, State, StoredSubscription } from "./rules/state.ts";
import { createSubscription, getSubscription, updateSubscription } from "./rules/subscriptions.ts";
import { sendWebhook } from "./sendWebhook.ts";

/** Billed units of one customer and meter at one second. */
type UsageEntry = {
  readonly customer: string;
  readonly meter: string;
  readonly second: number;
  readonly value: number;
};

/** How a test controls and inspects the double. Every function has one parameter, an object, so that it works over HTTP too. */
export type Control = {
  readonly addFault: (fault: Fault) => void;
  readonly clearFaults: () => void;
  /** Continues all calls that a `hold` keeps. */
  readonly release: () => void;
  readonly advanceClock: (by: { seconds: number }) => void;
  /** Stops the clock at a unix second. */
  readonly holdClock: (at: { second: number }) => void;
  readonly now: () => number;
  readonly changeSettings: (settings: Partial<Settings>) => void;
  readonly addCustomer: (customer: { id?: string }) => { customerId: string };
  /** Returns the ids of the meters that the service uses, and creates missing ones. */
  readonly meterIds: () => Record<Kind, string>;
  /**
   * Creates a subscription, by default monthly, that has a price on both meters, for a new customer or one that the double
   * has already.
   */
  readonly addSubscriber: (subscriber: {
    customerId?: string;
    billingCycleAnchor?: number;
    interval?: "month" | "year";
    trialEnd?: number;
  }) => { customerId: string; subscriptionId: string };
  /** Pauses the collection of a subscription's payments; without a behavior, resumes it. */
  readonly pauseCollection: (pause: {
    subscriptionId: string;
    behavior?: NonNullable<StoredSubscription["pause"]>["behavior"];
    resumesAt?: number;
  }) => void;
  /** Begins a trial or moves its end; `now` ends it. */
  readonly changeTrial: (trial: { subscriptionId: string; trialEnd: number | "now" }) => void;
  /** Ends a subscription: now, with or without an invoice of its open usage, or at the end of its period. */
  readonly cancel: (cancellation: {
    subscriptionId: string;
    when: "now_with_invoice" | "now_without_invoice" | "at_period_end";
  }) => void;
  /** Lets a schedule change a subscription at a second: its prices, or its end. */
  readonly schedule: (phase: {
    subscriptionId: string;
    at: number;
    removePrices?: readonly string[];
    cancel?: boolean;
  }) => void;
  /** Finalizes a draft, as its owner does by hand. */
  readonly finalizeInvoice: (of: { invoiceId: string }) => void;
  /** Changes a subscription as its owner or Stripe does: its status, or the prices that it has. */
  readonly changeSubscription: (change: {
    subscriptionId: string;
    status?: StoredSubscription["status"];
    removePrices?: readonly string[];
  }) => void;
  /** Deletes a customer and cancels its subscriptions. */
  readonly deleteCustomer: (customer: { customerId: string }) => void;
  /** Sends a snapshot webhook about a subscription or a customer, and returns the status of the response. */
  readonly announce: (event: { type: string; objectId: string }) => Promise<number>;
  readonly declinePayments: (of: { customerId: string }) => void;
  readonly acceptPayments: (of: { customerId: string }) => void;
  /** Rejects an accepted event asynchronously: it is not billed, and the next report names it. */
  readonly rejectAccepted: (event: { identifier: string; code?: string }) => void;
  /** Sends all webhooks to this URL, signed with this secret. */
  readonly setWebhook: (destination: { url: string; secret: string }) => void;
  /**
   * Sends a thin webhook for each meter with rejected events that no report has named yet, and returns the statuses of the
   * responses. `resend` repeats earlier webhooks, as Stripe does.
   */
  readonly reportErrors: (options: ReportOptions & { resend?: boolean }) => Promise<number[]>;
  readonly events: () => readonly AcceptedEvent[];
  readonly usage: (of: { customerId?: string }) => UsageEntry[];
  /** Returns the metered lines of a subscription's invoices. */
  readonly invoices: (of: { subscriptionId: string }) => InvoiceLine[];
  readonly calls: () => readonly RecordedCall[];
  /** Calls that the double does not model: a test that ends with any of these has failed. */
  readonly problems: () => readonly string[];
  /** Returns how many calls wait: for `release` after a `hold`, or for the client to disconnect after a `hang`. */
  readonly held: () => number;
  /** Returns how many calls were rejected because another call of the same customer and meter was in progress. */
  readonly overlaps: () => number;
};

export const createControl = (
  state: State,
  faults: Faults,
  observations: Observations,
): Control => {
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
  let webhook: { readonly url: string; readonly secret: string } | null = null;
  const send = async (event: object): Promise<number> => {
    if (webhook === null) {
      throw new Error("The double has no URL for webhooks.");
    }
    return sendWebhook({ ...webhook, second: state.clock.now() }, event);
  };
  const addCustomer: Control["addCustomer"] = ({ id }) => ({
    customerId: createCustomer(state, {}, id).id,
  });
  return {
    addFault: faults.add,
    clearFaults: faults.clear,
    release: () => {
      for (const release of observations.held) {
        release();
      }
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
    addSubscriber: ({
      customerId: id,
      billingCycleAnchor: anchor,
      interval = "month",
      trialEnd,
    }) => {
      const customerId =
        id !== undefined && state.customers.has(id)
          ? id
          : addCustomer(id === undefined ? {} : { id }).customerId;
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
        ...(trialEnd === undefined ? {} : { trial_end: trialEnd }),
      });
      return { customerId, subscriptionId };
    },
    changeSubscription: ({ subscriptionId, status, removePrices: priceIds = [] }) => {
      const subscription = getSubscription(state, subscriptionId);
      if (status === "canceled") {
        cancelNow(state, subscription, { invoiceNow: false });
      }
      subscription.status = status ?? subscription.status;
      removePrices(state, subscription, priceIds, { invoiceNow: false });
    },
    pauseCollection: ({ subscriptionId, behavior, resumesAt }) => {
      updateSubscription(state, subscriptionId, {
        pause_collection:
          behavior === undefined
            ? ""
            : { behavior, ...(resumesAt === undefined ? {} : { resumes_at: resumesAt }) },
      });
    },
    changeTrial: ({ subscriptionId, trialEnd }) =>
      changeTrial(state, getSubscription(state, subscriptionId), trialEnd),
    cancel: ({ subscriptionId, when }) => {
      if (when === "at_period_end") {
        updateSubscription(state, subscriptionId, { cancel_at_period_end: true });
      } else {
        cancelNow(state, getSubscription(state, subscriptionId), {
          invoiceNow: when === "now_with_invoice",
        });
      }
    },
    schedule: ({ subscriptionId, at, removePrices: priceIds = [], cancel = false }) => {
      const subscription = getSubscription(state, subscriptionId);
      subscription.scheduleId ??= state.nextId("sub_sched");
      subscription.phases.push({
        at,
        apply: () => {
          removePrices(state, subscription, priceIds, { invoiceNow: true, at });
          if (cancel) {
            cancelNow(state, subscription, { invoiceNow: false, at });
          }
        },
      });
      subscription.phases.sort((a, b) => a.at - b.at);
    },
    finalizeInvoice: ({ invoiceId }) => {
      settleAll(state);
      changeInvoice(state, invoiceId, "finalize");
    },
    deleteCustomer: ({ customerId }) => {
      settleAll(state);
      state.customers.delete(customerId);
      for (const subscription of state.subscriptions.values()) {
        if (subscription.customerId === customerId && subscription.status !== "canceled") {
          cancelNow(state, subscription, { invoiceNow: false });
        }
      }
    },
    announce: ({ type, objectId }) =>
      send({
        id: state.nextId("evt"),
        object: "event",
        type,
        created: state.clock.now(),
        livemode: false,
        data: { object: { id: objectId } },
      }),
    declinePayments: ({ customerId }) => {
      state.declining.add(customerId);
    },
    acceptPayments: ({ customerId }) => {
      state.declining.delete(customerId);
    },
    rejectAccepted: ({ identifier, code = "archived_meter" }) => {
      const event = state.events.find((accepted) => accepted.identifier === identifier);
      if (!event) {
        throw new Error(`The double has accepted no event ${identifier}.`);
      }
      event.rejectedWith = code;
    },
    setWebhook: (destination) => {
      webhook = destination;
    },
    reportErrors: async ({ resend = false, ...options }) => {
      const reports = resend ? [...state.thinEvents.values()] : createErrorReports(state, options);
      const statuses: number[] = [];
      for (const { data: _, ...notification } of reports) {
        statuses.push(await send(notification));
      }
      return statuses;
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
          const sum = entries.get(key)?.value ?? 0;
          entries.set(key, { customer, meter, second, value: sum + value });
        }
      }
      return [...entries.values()];
    },
    invoices: ({ subscriptionId }) => {
      getSubscription(state, subscriptionId);
      return meteredLines(state, subscriptionId);
    },
    calls: () => observations.calls,
    problems: () => observations.problems,
    held: () => observations.held.size + observations.hanging.size,
    overlaps: () => observations.overlaps,
  };
};
