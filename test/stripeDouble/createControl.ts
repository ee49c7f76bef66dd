import type { Kind } from "../../modules/records/owner.rules.ts";
import { METERS, namesOfMeter } from "../../modules/billing/stripe/meters.ts";
import { payCheckout, settleCheckout } from "./checkouts.ts";
import type { Observations } from "./createCallHandler.ts";
import type { Fault, Faults } from "./faults.ts";
import { beginTrial, cancelNow } from "./invoices.ts";
import { acceptMeterEvent, createErrorReports, createMeter } from "./meters.ts";
import type { SampleForm } from "./meters.ts";
import { findBy } from "./responses.ts";
import { sendWebhook } from "./sendWebhook.ts";
import type { AcceptedEvent, Meter, Settings, State, StoredSubscription } from "./state.ts";
import {
  createPrice,
  createSubscription,
  getSubscription,
  updateSubscription,
} from "./subscriptions.ts";

/** Billed units of one customer and meter at one second. */
type UsageEntry = {
  readonly customer: string;
  readonly meter: string;
  readonly second: number;
  readonly value: number;
};

type OfSubscription = { readonly subscriptionId: string };
type Interval = "month" | "year";
type End = "now_with_invoice" | "now_without_invoice" | "at_period_end";
type OfCustomer = { readonly customerId: string };

/** How a test controls and inspects the double. Every function has one parameter, an object, so that it works over HTTP too. */
export const createControl = (state: State, faults: Faults, observations: Observations) => {
  const { clock } = state;
  let webhook: { readonly url: string; readonly secret: string } | null = null;

  const ourMeter = (kind: Kind, cell: string | null = null): string => {
    const { eventName, displayName } = namesOfMeter(kind, cell);
    const known = [...state.meters.values()].find(({ event_name: name }) => name === eventName);
    const created = { event_name: eventName, display_name: displayName };
    return (known ?? createMeter(state, { ...created, default_aggregation: { formula: "sum" } }))
      .id;
  };

  const send = async (event: object): Promise<number> => {
    if (webhook === null) {
      throw new Error("The double has no URL for webhooks.");
    }
    return sendWebhook({ ...webhook, second: clock.now() }, event);
  };

  const addCustomer = ({ id = state.nextId("cus") }: { readonly id?: string }): OfCustomer => {
    state.customers.set(id, { id, object: "customer" });
    return { customerId: id };
  };

  const usage = ({ customerId: of }: Partial<OfCustomer>): UsageEntry[] => {
    const entries = new Map<string, UsageEntry>();
    for (const { customerId, eventName, second, value, rejectedWith } of state.events) {
      if (rejectedWith === null && (of ?? customerId) === customerId) {
        const key = `${customerId} ${eventName} ${second}`;
        const sum = value + (entries.get(key)?.value ?? 0);
        entries.set(key, { customer: customerId, meter: eventName, second, value: sum });
      }
    }
    return [...entries.values()];
  };

  return {
    addFault: (fault: Fault): void => faults.add(fault),
    clearFaults: (): void => faults.clear(),
    /** Continues all calls that a `hold` keeps. */
    release: (): void => observations.held.forEach((release) => release()),
    advanceClock: ({ seconds }: { readonly seconds: number }): void => clock.advance(seconds),
    /** Stops the clock at a unix second. */
    holdClock: ({ second }: { readonly second: number }): void => clock.hold(second),
    now: clock.now,
    changeSettings: (settings: Partial<Settings>): void => {
      Object.assign(state.settings, settings);
    },
    addCustomer,
    /** Returns the ids of the meters that the service uses, and creates missing ones. */
    meterIds: (): Record<Kind, string> => ({ tree: ourMeter("tree"), bottle: ourMeter("bottle") }),
    /** Creates a subscription that has a price on both meters of cells, for a new customer or one that the double has already. */
    addSubscriber: ({
      customerId: id,
      interval = "month",
      cells = [null],
    }: Partial<OfCustomer> & {
      readonly interval?: Interval;
      readonly cells?: readonly (string | null)[];
    }) => {
      const isKnown = id !== undefined && state.customers.has(id);
      const { customerId } = isKnown
        ? { customerId: id }
        : addCustomer(id === undefined ? {} : { id });
      const meters = cells.flatMap((cell) => [ourMeter("tree", cell), ourMeter("bottle", cell)]);
      const prices = meters.map((meter) => createPrice(state, { meter, interval }).id);
      const { id: subscriptionId } = createSubscription(state, customerId, prices);
      return { customerId, subscriptionId };
    },
    /** Creates a price on the meter of a kind, or a flat one, and returns its id. */
    addPrice: ({ kind, interval }: { kind?: Kind; interval?: Interval | undefined }): string =>
      createPrice(state, { meter: kind === undefined ? null : ourMeter(kind), interval }).id,
    /** Creates a subscription, and returns its id. */
    addSubscription: (given: OfCustomer & { prices: readonly string[]; anchor?: number }): string =>
      createSubscription(state, given.customerId, given.prices, given.anchor).id,
    addItem: ({ subscriptionId, price }: OfSubscription & { readonly price: string }): void => {
      updateSubscription(state, subscriptionId, { items: [{ price }] });
    },
    /** Returns the prices of a subscription's items. */
    pricesOf: ({ subscriptionId }: OfSubscription): string[] =>
      getSubscription(state, subscriptionId).items.map(({ price }) => price.id),
    setMeterStatus: ({ meterId, status }: { meterId: string; status: Meter["status"] }): void => {
      findBy(state.meters, "meter", meterId, 404).status = status;
    },
    /** Pauses the collection of a subscription's payments; without a behavior, resumes it. */
    pauseCollection: (given: OfSubscription & { behavior?: StoredSubscription["pausedBy"] }) => {
      getSubscription(state, given.subscriptionId).pausedBy = given.behavior ?? null;
    },
    beginTrial: ({ subscriptionId, trialEnd }: OfSubscription & { trialEnd: number }): void =>
      beginTrial(state, getSubscription(state, subscriptionId), trialEnd),
    /** Ends a subscription: now, with or without an invoice of its open usage, or at the end of its period. */
    cancel: ({ subscriptionId, when }: OfSubscription & { readonly when: End }): void => {
      const subscription = getSubscription(state, subscriptionId);
      if (when === "at_period_end") {
        subscription.endsAtPeriodEnd = true;
      } else {
        cancelNow(state, subscription, { invoiceNow: when === "now_with_invoice" });
      }
    },
    /** Changes a subscription as its owner or Stripe does: its status, or the prices that it has. */
    changeSubscription: (
      given: OfSubscription & { status?: StoredSubscription["status"]; removePrices?: string[] },
    ): void => {
      const { subscriptionId, status, removePrices = [] } = given;
      const subscription = getSubscription(state, subscriptionId);
      if (status === "canceled") {
        cancelNow(state, subscription, { invoiceNow: false });
      }
      subscription.status = status ?? subscription.status;
      subscription.items = subscription.items.filter(
        ({ price }) => !removePrices.includes(price.id),
      );
    },
    /** Deletes a customer and cancels its subscriptions. */
    deleteCustomer: ({ customerId }: OfCustomer): void => {
      state.customers.delete(customerId);
      for (const { id, customerId: owner } of state.subscriptions.values()) {
        const subscription = getSubscription(state, id);
        if (owner === customerId && subscription.status !== "canceled") {
          cancelNow(state, subscription, { invoiceNow: false });
        }
      }
    },
    /** Pays a Checkout session, and returns the type of the event that `announce` can send. */
    payCheckout: ({ sessionId, isDelayed = false }: { sessionId: string; isDelayed?: boolean }) =>
      payCheckout(state, sessionId, isDelayed),
    /** Ends a delayed payment, and returns the type of its event. */
    settleCheckout: ({ sessionId, succeeds }: { sessionId: string; succeeds: boolean }): string =>
      settleCheckout(state, sessionId, succeeds),
    /** Sends a snapshot webhook about an object, and returns the status of the response. */
    announce: ({ type, objectId }: { readonly type: string; readonly objectId: string }) =>
      send({
        id: state.nextId("evt"),
        object: "event",
        type,
        created: clock.now(),
        livemode: false,
        data: { object: { id: objectId } },
      }),
    /** Accepts usage that another program sends; by default trees of the current second. */
    acceptEvent: ({
      customerId,
      units,
      kind = "tree",
      second = clock.now(),
      identifier = state.nextId("evt"),
    }: OfCustomer & {
      readonly units: number;
      readonly kind?: Kind;
      readonly second?: number;
      readonly identifier?: string;
    }): void => {
      const payload = { stripe_customer_id: customerId, value: String(units) };
      const { eventName } = METERS[kind];
      const request = { event_name: eventName, payload, identifier, timestamp: second };
      acceptMeterEvent(state, request, { idempotencyKey: null, rejectedWith: null });
    },
    declinePayments: ({ customerId }: OfCustomer) => void state.declining.add(customerId),
    acceptPayments: ({ customerId }: OfCustomer) => state.declining.delete(customerId),
    /** Rejects an accepted event asynchronously: it is not billed, and the next report names it. */
    rejectAccepted: ({ identifier }: { readonly identifier: string }): void => {
      const event = state.events.find((accepted) => accepted.identifier === identifier);
      if (!event) {
        throw new Error(`The double has accepted no event ${identifier}.`);
      }
      event.rejectedWith = "archived_meter";
    },
    /** Sends all webhooks to this URL, signed with this secret. */
    setWebhook: (destination: { readonly url: string; readonly secret: string }): void => {
      webhook = destination;
    },
    /**
     * Sends a thin webhook for each meter with rejected events that no report has named yet, and returns the statuses of the
     * responses. `resend` repeats earlier webhooks, as Stripe does.
     */
    reportErrors: async (given: { sampleForm?: SampleForm; resend?: boolean }) => {
      const { sampleForm = "identifier", resend = false } = given;
      const reports = resend ? state.thinEvents.values() : createErrorReports(state, sampleForm);
      const statuses: number[] = [];
      for (const { data: _, ...notification } of reports) {
        statuses.push(await send(notification));
      }
      return statuses;
    },
    events: (): readonly AcceptedEvent[] => state.events,
    usage,
    /** Returns the billed units of a customer, over all meters and seconds. */
    units: ({ customerId }: OfCustomer): number =>
      usage({ customerId }).reduce((sum, { value }) => sum + value, 0),
    calls: (): Observations["calls"] => observations.calls,
    /** Returns how many calls have sent usage. */
    sends: (): number =>
      observations.calls.filter(({ path }) => path === "/v1/billing/meter_events").length,
    /** Calls that the double does not model: a test that ends with any of these has failed. */
    problems: (): readonly string[] => observations.problems,
    /** Returns how many calls wait: for `release` after a `hold`, or for the client to disconnect after a `hang`. */
    held: (): number => observations.held.size + observations.hanging.size,
    /** Returns how many calls were rejected because another call of the same customer and meter was in progress. */
    overlaps: (): number => observations.overlaps,
  };
};

export type Control = ReturnType<typeof createControl>;
