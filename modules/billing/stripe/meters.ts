import { KINDS } from "../../records/owner.rules.ts";
import type { Kind } from "../../records/owner.rules.ts";
import { Stripe } from "stripe";
import type { Span } from "../usage.rules.ts";
import { UsageUnreadableError } from "../processor.ts";
import { isMissingCustomer } from "./subscriptions.ts";

/** The payload keys of our meters, which are also Stripe's defaults. */
export const CUSTOMER_KEY = "stripe_customer_id";
export const VALUE_KEY = "value";

export const METERS = {
  tree: { eventName: "impact_tree_planted", displayName: "Trees planted" },
  bottle: { eventName: "impact_plastic_bottle_rescued", displayName: "Plastic bottles rescued" },
} as const satisfies Record<Kind, { eventName: string; displayName: string }>;

/** Returns the names of the meter of a cell; null is the default one. Cells may share customers, so each has its own meters. */
export const namesOfMeter = (kind: Kind, cell: string | null) => {
  const { eventName, displayName } = METERS[kind];
  return cell === null
    ? METERS[kind]
    : { eventName: `${eventName}_${cell}`, displayName: `${displayName} (${cell})` };
};

/** Returns why a meter cannot be used, or null. Stripe allows only its display name to be changed. */
const findProblem = (meter: Stripe.Billing.Meter): string | null => {
  const { status, event_time_window: window } = meter;
  const { formula } = meter.default_aggregation;
  const { event_payload_key: customerKey } = meter.customer_mapping;
  const { event_payload_key: valueKey } = meter.value_settings;
  const differences = [
    status !== "active" && `it is ${status}`,
    formula !== "sum" && `it aggregates by ${formula}, not sum`,
    window !== null && `its event time window is "${window}", not empty`,
    customerKey !== CUSTOMER_KEY && `its customer key is "${customerKey}", not "${CUSTOMER_KEY}"`,
    valueKey !== VALUE_KEY && `its value key is "${valueKey}", not "${VALUE_KEY}"`,
  ].filter((difference) => difference !== false);
  return differences.length === 0
    ? null
    : `Stripe's meter ${meter.id} (${meter.event_name}) cannot be used: ${differences.join("; ")}.`;
};

/** A meter with our event name. The problem is why it cannot be used: it is inactive or counts differently. */
export type FoundMeter = {
  readonly id: string;
  readonly eventName: string;
  readonly problem: string | null;
};

/** Returns a cell's meters at Stripe; null for one that does not exist. */
export const findMeters = async (stripe: Stripe, cell: string | null) => {
  const existing = await stripe.billing.meters
    .list({ limit: 100 })
    .autoPagingToArray({ limit: 10_000 });
  const find = (kind: Kind): FoundMeter | null => {
    const { eventName } = namesOfMeter(kind, cell);
    const named = existing.filter((meter) => meter.event_name === eventName);
    // At most one is active. If there is one, inactive ones do not matter.
    const meter = named.find(({ status }) => status === "active") ?? named[0];
    return meter ? { id: meter.id, eventName, problem: findProblem(meter) } : null;
  };
  return { tree: find("tree"), bottle: find("bottle") };
};

const createMeter = async (
  stripe: Stripe,
  kind: Kind,
  cell: string | null,
): Promise<FoundMeter> => {
  const { eventName, displayName } = namesOfMeter(kind, cell);
  try {
    const { id } = await stripe.billing.meters.create({
      display_name: displayName,
      event_name: eventName,
      default_aggregation: { formula: "sum" },
      customer_mapping: { type: "by_id", event_payload_key: CUSTOMER_KEY },
      value_settings: { event_payload_key: VALUE_KEY },
    });
    return { id, eventName, problem: null };
  } catch (error) {
    // Another process may have created it first.
    const created = (await findMeters(stripe, cell))[kind];
    if (created === null) {
      throw error;
    }
    return created;
  }
};

export const findOrCreateMeters = async (stripe: Stripe, cell: string | null) => {
  const { tree, bottle } = await findMeters(stripe, cell);
  return {
    tree: tree ?? (await createMeter(stripe, "tree", cell)),
    bottle: bottle ?? (await createMeter(stripe, "bottle", cell)),
  };
};

export const inspectMeters = async (stripe: Stripe, cell: string | null) => {
  const meters = await findMeters(stripe, cell);
  return KINDS.map((kind) => {
    const missing = `Stripe has no meter ${namesOfMeter(kind, cell).eventName} yet. A worker with this key creates it.`;
    return meters[kind] === null ? missing : meters[kind].problem;
  }).filter((problem) => problem !== null);
};

/**
 * Returns Stripe's sum of a customer's usage in a half-open span of whole minutes. It lags behind what was sent.
 * @throws UsageUnreadableError if Stripe does not know the customer, such as a deleted one
 */
export const sumUsage = async (
  stripe: Stripe,
  meterId: string,
  customer: string,
  { start, end }: Span,
): Promise<number> => {
  // Without a grouping window Stripe returns one sum. More pages are not expected, but would be added.
  const summaries = await stripe.billing.meters
    .listEventSummaries(meterId, { customer, start_time: start, end_time: end, limit: 100 })
    .autoPagingToArray({ limit: 10_000 })
    .catch(async (error: unknown) => {
      // How Stripe refuses a deleted customer is not documented.
      throw error instanceof Stripe.errors.StripeInvalidRequestError &&
        (await isMissingCustomer(stripe, customer))
        ? new UsageUnreadableError(`No such customer: ${customer}`, { cause: error })
        : error;
    });
  return summaries.reduce((sum, { aggregated_value: value }) => sum + value, 0);
};
