import type { ExecutionContext } from "ava";
import type { StripeDouble, StripeDoubleOptions } from "./startStripeDouble.ts";
import { setUpStripe } from "../billing/stripe/stripeSetup.ts";
import type { StripeSetup } from "../billing/stripe/stripeSetup.ts";

const EVENTS = "/v1/billing/meter_events";

/** Calls the double as another program would. */
export const callDouble = async (
  { url, secretKey }: StripeDouble,
  method: "GET" | "POST" | "DELETE",
  path: string,
  parameters: Readonly<Record<string, string>> = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> => {
  const form = new URLSearchParams(parameters);
  const response = await fetch(
    method === "GET" ? `${url}${path}?${form.toString()}` : `${url}${path}`,
    {
      method,
      headers: { authorization: `Bearer ${secretKey}`, ...headers },
      ...(method === "POST" ? { body: form } : {}),
    },
  );
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every response is a JSON object
  const body = (await response.json()) as Record<string, unknown>;
  return { status: response.status, headers: response.headers, body };
};

export type DoubleScene = StripeSetup & {
  readonly customerId: string;
  readonly subscriptionId: string;
  readonly call: (
    method: "GET" | "POST" | "DELETE",
    path: string,
    parameters?: Record<string, string>,
    headers?: Record<string, string>,
  ) => ReturnType<typeof callDouble>;
  /** Sends an event of one tree with changed or added parameters; "" omits a parameter. */
  readonly sendEvent: (changes?: Record<string, string>) => ReturnType<typeof callDouble>;
};

export const stageDouble = async (
  t: ExecutionContext,
  options: StripeDoubleOptions = {},
): Promise<DoubleScene> => {
  const setup = await setUpStripe(t, options);
  const { double, customer } = setup;
  const call: DoubleScene["call"] = (...rest) => callDouble(double, ...rest);
  const { customerId, subscriptionId } = customer;
  if (customerId === null || subscriptionId === null) {
    throw new Error("The double did not create a subscriber.");
  }
  return {
    ...setup,
    customerId,
    subscriptionId,
    call,
    sendEvent: (changes = {}) => {
      const parameters = {
        event_name: "impact_tree_planted",
        "payload[stripe_customer_id]": customerId,
        "payload[value]": "1",
        ...changes,
      };
      return call(
        "POST",
        EVENTS,
        Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== "")),
      );
    },
  };
};
