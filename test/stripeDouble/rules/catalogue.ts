import type { Stripe } from "stripe";
import { invalid, missing } from "../errorResponse.ts";
import type { RequestTypes } from "../requests/requestTypes.ts";
import type { Customer, Price, State } from "./state.ts";

/** Merges metadata into what is stored; an empty value removes its key. */
export const storedMetadata = (
  metadata: Stripe.Emptyable<Stripe.MetadataParam> | undefined,
  before: Stripe.Metadata = {},
): Stripe.Metadata =>
  metadata === "" || metadata === null
    ? {}
    : Object.fromEntries(
        Object.entries({ ...before, ...metadata })
          .filter(([, value]) => value !== "" && value !== null)
          .map(([key, value]) => [key, String(value)]),
      );

export const createCustomer = (
  { customers, nextId, clock }: State,
  request: RequestTypes["customerCreate"],
  id = nextId("cus"),
): Customer => {
  const customer: Customer = {
    id,
    object: "customer",
    created: clock.now(),
    livemode: false,
    name: request.name ?? null,
    email: request.email ?? null,
    metadata: storedMetadata(request.metadata),
  };
  customers.set(id, customer);
  return customer;
};

export const createPrice = (
  { prices, meters, nextId, clock }: State,
  request: RequestTypes["priceCreate"],
): Price => {
  const { recurring } = request;
  if (!recurring) {
    throw invalid("The double supports recurring prices only.", "parameter_missing", "recurring");
  }
  const { usage_type: usageType = "licensed", meter = null } = recurring;
  if (usageType === "metered" && meter === null) {
    throw invalid("A metered price must have a meter.", undefined, "recurring[meter]");
  }
  if (usageType !== "metered" && meter !== null) {
    throw invalid("Only a metered price can have a meter.", undefined, "recurring[meter]");
  }
  if (meter !== null && !meters.has(meter)) {
    throw missing("meter", meter, 400);
  }
  const price: Price = {
    id: nextId("price"),
    object: "price",
    active: true,
    created: clock.now(),
    currency: request.currency,
    livemode: false,
    lookup_key: request.lookup_key ?? null,
    metadata: storedMetadata(request.metadata),
    nickname: request.nickname ?? null,
    product: nextId("prod"),
    type: "recurring",
    unit_amount: request.unit_amount ?? null,
    recurring: {
      interval: recurring.interval,
      interval_count: recurring.interval_count ?? 1,
      meter,
      trial_period_days: null,
      usage_type: usageType,
    },
  };
  prices.set(price.id, price);
  return price;
};
