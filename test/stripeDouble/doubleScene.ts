import type { ExecutionContext } from "ava";
import { setUpStripe } from "../billing/stripe/stripeSetup.ts";
import type { StripeDouble, StripeDoubleOptions } from "./startStripeDouble.ts";

type Parameters = Readonly<Record<string, string>>;

/** Calls the double as another program would. */
export const callDouble = async (
  { url, secretKey }: StripeDouble,
  method: "GET" | "POST",
  path: string,
  parameters: Parameters = {},
  headers: Parameters = {},
): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> => {
  const form = new URLSearchParams(parameters);
  const query = method === "GET" ? `?${form.toString()}` : "";
  const response = await fetch(`${url}${path}${query}`, {
    method,
    headers: { authorization: `Bearer ${secretKey}`, ...headers },
    ...(method === "POST" ? { body: form } : {}),
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every response is a JSON object
  const body = (await response.json()) as Record<string, unknown>;
  return { status: response.status, headers: response.headers, body };
};

/** Starts a double with one subscriber, and returns how a test calls it. */
export const stageDouble = async (t: ExecutionContext, options: StripeDoubleOptions = {}) => {
  const setup = await setUpStripe(t, options);
  const { double, customer } = setup;
  const call = (
    method: "GET" | "POST",
    path: string,
    parameters: Parameters = {},
    headers: Parameters = {},
  ) => callDouble(double, method, path, parameters, headers);
  return {
    ...setup,
    ...customer,
    control: double.control,
    call,
    /** Sends an event of one tree with changed or added parameters; "" omits a parameter. */
    sendEvent: (changes: Parameters = {}, headers: Parameters = {}) => {
      const parameters = Object.entries({
        event_name: "impact_tree_planted",
        "payload[stripe_customer_id]": customer.customerId,
        "payload[value]": "1",
        ...changes,
      }).filter(([, value]) => value !== "");
      return call("POST", "/v1/billing/meter_events", Object.fromEntries(parameters), headers);
    },
  };
};
