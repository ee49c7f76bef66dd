import {
  acceptMeterEvent,
  createMeter,
  getMeter,
  listEventSummaries,
  listMeters,
  setMeterStatus,
  targetOf,
} from "./rules/meters.ts";
import { ErrorResponse, missing } from "./errorResponse.ts";
import type { AcceptedEvent, State } from "./rules/state.ts";
import {
  cancelSubscription,
  createSubscription,
  createSubscriptionItem,
  deleteSubscriptionItem,
  getSubscription,
  listSubscriptionItems,
  listSubscriptions,
  readSubscriptionItem,
  presentSubscription,
  updateSubscription,
  updateSubscriptionItem,
} from "./rules/subscriptions.ts";
import { createCustomer, createPrice } from "./rules/catalogue.ts";
import {
  changeInvoice,
  getInvoice,
  listInvoiceLines,
  listInvoices,
  presentInvoice,
} from "./rules/invoices.ts";
import { settleAll } from "./rules/lifecycle.ts";
import { parseRequest } from "./requests/validateRequest.ts";

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

const found = <T>(what: string, map: ReadonlyMap<string, T>, id: string): T => {
  const value = map.get(id);
  if (value === undefined) {
    throw missing(what, id, 404);
  }
  return value;
};

/** A call that the clock's effects on subscriptions precede. */
const settled = (state: State, execute: () => object): Prepared => ({
  execute: () => {
    settleAll(state);
    return execute();
  },
});

const routes: Record<string, (call: Call) => Prepared> = {
  "GET /v1/account": ({ state, form }) => {
    parseRequest("nothing", form);
    return { execute: () => ({ id: state.settings.accountId, object: "account" }) };
  },
  "POST /v1/billing/meter_events": ({ state, form, event }) => {
    const request = parseRequest("meterEventCreate", form);
    return {
      lockKey: () => {
        const { meter, customerId } = targetOf(state, request);
        return `${customerId} and ${meter.event_name}`;
      },
      execute: () => acceptMeterEvent(state, request, targetOf(state, request), event),
    };
  },
  "POST /v1/billing/meters": ({ state, form }) => {
    const request = parseRequest("meterCreate", form);
    return { execute: () => createMeter(state, request) };
  },
  "GET /v1/billing/meters": ({ state, form }) => {
    const request = parseRequest("meterList", form);
    return { execute: () => listMeters(state, request) };
  },
  "GET /v1/billing/meters/:id": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => getMeter(state, id) };
  },
  "POST /v1/billing/meters/:id/deactivate": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => setMeterStatus(state, id, "inactive") };
  },
  "POST /v1/billing/meters/:id/reactivate": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => setMeterStatus(state, id, "active") };
  },
  "GET /v1/billing/meters/:id/event_summaries": ({ state, id, form }) => {
    const request = parseRequest("meterListEventSummaries", form);
    return { execute: () => listEventSummaries(state, id, request) };
  },
  "GET /v2/core/events/:id": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => found("event", state.thinEvents, id) };
  },
  "POST /v1/customers": ({ state, form }) => {
    const request = parseRequest("customerCreate", form);
    return { execute: () => createCustomer(state, request) };
  },
  "GET /v1/customers/:id": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => found("customer", state.customers, id) };
  },
  "POST /v1/prices": ({ state, form }) => {
    const request = parseRequest("priceCreate", form);
    return { execute: () => createPrice(state, request) };
  },
  "GET /v1/prices/:id": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => found("price", state.prices, id) };
  },
  "POST /v1/subscriptions": ({ state, form }) => {
    const request = parseRequest("subscriptionCreate", form);
    return { execute: () => presentSubscription(state, createSubscription(state, request)) };
  },
  "GET /v1/subscriptions": ({ state, form }) => {
    const request = parseRequest("subscriptionList", form);
    return { execute: () => listSubscriptions(state, request) };
  },
  "GET /v1/subscriptions/:id": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => presentSubscription(state, getSubscription(state, id)) };
  },
  "POST /v1/subscriptions/:id": ({ state, id, form }) => {
    const request = parseRequest("subscriptionUpdate", form);
    return { execute: () => presentSubscription(state, updateSubscription(state, id, request)) };
  },
  "DELETE /v1/subscriptions/:id": ({ state, id, form }) => {
    const request = parseRequest("subscriptionCancel", form);
    return { execute: () => presentSubscription(state, cancelSubscription(state, id, request)) };
  },
  "GET /v1/invoices": ({ state, form }) => {
    const request = parseRequest("invoiceList", form);
    return settled(state, () => listInvoices(state, request));
  },
  "GET /v1/invoices/:id": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return settled(state, () => presentInvoice(state, getInvoice(state, id)));
  },
  "GET /v1/invoices/:id/lines": ({ state, id, form }) => {
    const request = parseRequest("invoiceListLines", form);
    return settled(state, () => listInvoiceLines(state, id, request));
  },
  "POST /v1/invoices/:id/finalize": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return settled(state, () => changeInvoice(state, id, "finalize"));
  },
  "POST /v1/invoices/:id/void": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return settled(state, () => changeInvoice(state, id, "void"));
  },
  "POST /v1/invoices/:id/mark_uncollectible": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return settled(state, () => changeInvoice(state, id, "mark_uncollectible"));
  },
  "POST /v1/subscription_items": ({ state, form }) => {
    const request = parseRequest("subscriptionItemCreate", form);
    return { execute: () => createSubscriptionItem(state, request) };
  },
  "GET /v1/subscription_items": ({ state, form }) => {
    const request = parseRequest("subscriptionItemList", form);
    return { execute: () => listSubscriptionItems(state, request) };
  },
  "DELETE /v1/subscription_items/:id": ({ state, id, form }) => {
    parseRequest("subscriptionItemDelete", form);
    return { execute: () => deleteSubscriptionItem(state, id) };
  },
  "GET /v1/subscription_items/:id": ({ state, id, form }) => {
    parseRequest("nothing", form);
    return { execute: () => readSubscriptionItem(state, id) };
  },
  "POST /v1/subscription_items/:id": ({ state, id, form }) => {
    const request = parseRequest("subscriptionItemUpdate", form);
    return { execute: () => updateSubscriptionItem(state, id, request) };
  },
};

/**
 * Finds the call's route and checks its parameters.
 * @throws ErrorResponse as Stripe does
 * @throws Error for a case that the double does not model
 */
export const prepareCall = (
  { method, path }: { method: string; path: string },
  call: Omit<Call, "id">,
): Prepared => {
  const direct = routes[`${method} ${path}`];
  if (direct) {
    return direct({ ...call, id: "" });
  }
  const parts = path.split("/");
  for (const at of [3, 4]) {
    const id = parts[at];
    const route =
      routes[`${method} ${parts.with(Math.min(at, parts.length - 1), ":id").join("/")}`];
    if (id !== undefined && route) {
      return route({ ...call, id: decodeURIComponent(id) });
    }
  }
  throw new ErrorResponse(404, `Unrecognized request URL (${method}: ${path}).`);
};
