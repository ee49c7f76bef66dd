import { createCheckout, listCheckouts, retrieveCheckout } from "./checkouts.ts";
import { listInvoiceLines, listInvoices } from "./invoices.ts";
import {
  acceptMeterEvent,
  createMeter,
  listEventSummaries,
  listMeters,
  targetOf,
} from "./meters.ts";
import { parseRequest } from "./requests.ts";
import type { Requests } from "./requests.ts";
import { ErrorResponse, findBy } from "./responses.ts";
import type { AcceptedEvent, State } from "./state.ts";
import {
  getSubscription,
  listSubscriptionItems,
  listSubscriptions,
  presentSubscription,
  updateSubscription,
} from "./subscriptions.ts";

/** A call whose parameters are valid. */
export type Prepared = {
  /** Returns a key; two calls with the same key must not overlap. */
  readonly lockKey?: () => string;
  readonly execute: () => object;
};

type Call = {
  readonly state: State;
  /** The value of `:id` in the path. */
  readonly id: string;
  readonly form: string;
  readonly event: Pick<AcceptedEvent, "idempotencyKey" | "rejectedWith">;
};

type Route = (call: Call) => Prepared;

const route =
  <Name extends keyof Requests>(
    name: Name,
    execute: (state: State, request: Requests[Name], id: string) => object,
  ): Route =>
  ({ state, form, id }) => {
    const request = parseRequest(name, form);
    return { execute: () => execute(state, request, id) };
  };

const routes: Readonly<Record<string, Route>> = {
  "GET /v1/account": route("nothing", ({ settings }) => ({
    id: settings.accountId,
    object: "account",
  })),
  "POST /v1/billing/meter_events": ({ state, form, event }) => {
    const request = parseRequest("meterEventCreate", form);
    return {
      lockKey: () => {
        const { meter, customerId } = targetOf(state, request);
        return `${customerId} and ${meter.event_name}`;
      },
      execute: () => acceptMeterEvent(state, request, event),
    };
  },
  "POST /v1/billing/meters": route("meterCreate", createMeter),
  "GET /v1/billing/meters": route("meterList", listMeters),
  "GET /v1/billing/meters/:id/event_summaries": route(
    "meterListEventSummaries",
    (state, request, id) => listEventSummaries(state, id, request),
  ),
  "GET /v2/core/events/:id": route("nothing", ({ thinEvents }, _, id) =>
    findBy(thinEvents, "event", id, 404),
  ),
  "GET /v1/customers/:id": route("nothing", ({ customers }, _, id) =>
    findBy(customers, "customer", id, 404),
  ),
  "GET /v1/prices/:id": route("nothing", ({ prices }, _, id) => findBy(prices, "price", id, 404)),
  "GET /v1/subscriptions": route("subscriptionList", listSubscriptions),
  "GET /v1/subscriptions/:id": route("nothing", (state, _, id) =>
    presentSubscription(state, getSubscription(state, id)),
  ),
  "POST /v1/subscriptions/:id": route("subscriptionUpdate", (state, request, id) =>
    presentSubscription(state, updateSubscription(state, id, request)),
  ),
  "GET /v1/subscription_items": route("subscriptionItemList", listSubscriptionItems),
  "POST /v1/checkout/sessions": route("checkoutCreate", createCheckout),
  "GET /v1/checkout/sessions": route("checkoutList", listCheckouts),
  "GET /v1/checkout/sessions/:id": route("nothing", (state, _, id) => retrieveCheckout(state, id)),
  "GET /v1/invoices": route("invoiceList", listInvoices),
  "GET /v1/invoices/:id/lines": route("invoiceListLines", (state, request, id) =>
    listInvoiceLines(state, id, request),
  ),
};

/**
 * Finds the call's route and checks its parameters.
 * @throws ErrorResponse as Stripe does
 * @throws Error for a case that the double does not model
 */
export const prepareCall = (
  { method, path }: { readonly method: string; readonly path: string },
  call: Omit<Call, "id">,
): Prepared => {
  const parts = path.split("/");
  for (const at of [null, 3, 4]) {
    const pattern = at === null || at >= parts.length ? path : parts.with(at, ":id").join("/");
    const found = routes[`${method} ${pattern}`];
    if (found) {
      return found({ ...call, id: at === null ? "" : decodeURIComponent(parts[at] ?? "") });
    }
  }
  throw new ErrorResponse(404, `Unrecognized request URL (${method}: ${path}).`);
};
