import test from "ava";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { ExecutionContext } from "ava";
import { setUpStripe } from "../billing/stripe/stripeSetup.ts";
import { callDouble } from "./callDouble.ts";

/*
 * What the double refuses, as Stripe does. What it accepts is proven by the tests of billing, which compare it with what the
 * service has recorded.
 */

const DAY = 86_400;
const NOW = 1_800_000_000;
const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));

type Parameters = Readonly<Record<string, string>>;

const CUSTOMER = "payload[stripe_customer_id]";
const VALUE = "payload[value]";

/** Starts a double with one subscriber, and returns how a test calls it. */
const stageDouble = async (t: ExecutionContext) => {
  const { double, customerId, ...setup } = await setUpStripe(t);
  const call = callDouble.bind(null, double);
  /** Sends an event of one tree with changed or added parameters; "" omits a parameter. */
  const sendEvent = (changes: Parameters = {}, headers: Parameters = {}) => {
    const parameters = Object.entries({
      event_name: "impact_tree_planted",
      [CUSTOMER]: customerId,
      [VALUE]: "1",
      ...changes,
    }).filter(([, value]) => value !== "");
    return call("POST", "/v1/billing/meter_events", Object.fromEntries(parameters), headers);
  };
  return { ...setup, double, control: double.control, call, sendEvent };
};

const EVENTS: readonly (readonly [changes: Parameters, status: number, message?: RegExp])[] = [
  [{ quantity: "1" }, 400, /Unrecognized key: .*quantity/u],
  [{ event_name: "" }, 400, /expected string, received undefined.*event_name/u],
  [{ event_name: "other" }, 400, /No active meter found/u],
  [{ identifier: "x".repeat(101) }, 400, /expected string to have <=100 characters.*identifier/u],
  [{ [CUSTOMER]: "" }, 400, /stripe_customer_id/u],
  [{ [CUSTOMER]: "cus_x" }, 400, /No such customer/u],
  [{ [VALUE]: "" }, 400, /meter_event_value_not_found/u],
  [{ [VALUE]: "two" }, 400, /meter_event_invalid_value/u],
  [{ [VALUE]: "1234567890.123456" }, 400, /meter_event_value_too_many_digits/u],
  [{ [VALUE]: "-999999999999999" }, 200],
  [{ [VALUE]: "0.5" }, 200],
  [{ timestamp: "1.5" }, 400, /expected int, received number.*timestamp/u],
  [{ timestamp: String(NOW - 35 * DAY) }, 200],
  [{ timestamp: String(NOW - 35 * DAY - 1) }, 400, /timestamp_too_far_in_past/u],
  [{ timestamp: String(NOW + 300) }, 200],
  [{ timestamp: String(NOW + 301) }, 400, /timestamp_in_future/u],
];

for (const [changes, status, message = /meter_event/u] of EVENTS) {
  test(`an event with ${JSON.stringify(changes).slice(0, 60)} is a ${status}`, async (t) => {
    const { control, sendEvent } = await stageDouble(t);
    control.holdClock({ second: NOW });
    const sent = await sendEvent(changes);
    t.is(sent.status, status);
    t.regex(JSON.stringify(sent.body), message);
    t.is(control.events().length, status === 200 ? 1 : 0);
  });
}

test("an identifier is rejected for 24 hours, with a message and no code", async (t) => {
  const { control, sendEvent, billed } = await stageDouble(t);
  t.is((await sendEvent({ identifier: "one" })).status, 200);
  control.advanceClock({ seconds: DAY - 5 });
  const refused = await sendEvent({ identifier: "one" });
  t.is(refused.status, 400);
  t.is(refused.headers.get("stripe-should-retry"), "false");
  const message = "An event already exists with identifier one.";
  t.deepEqual(refused.body, { error: { type: "invalid_request_error", message } });
  control.advanceClock({ seconds: 10 });
  t.is((await sendEvent({ identifier: "one" })).status, 200);
  t.is(billed(), 2);
});

test("a key repeats its first response for 24 hours and rejects other parameters; invalid ones leave it free", async (t) => {
  const { control, sendEvent, billed } = await stageDouble(t);
  const key = { "idempotency-key": "key" };
  const send = (value: string) => sendEvent({ [VALUE]: value }, key);
  t.is((await sendEvent({ event_name: "" }, key)).status, 400);
  const first = await send("1");
  const replay = await send("1");
  t.deepEqual(replay.body, first.body);
  t.is(replay.headers.get("idempotent-replayed"), "true");
  t.like(await send("2"), { status: 400, body: { error: { type: "idempotency_error" } } });
  t.is(billed(), 1);
  control.advanceClock({ seconds: DAY });
  t.is((await send("2")).status, 200);
  t.is(billed(), 3);
});

const SUMMARY = { customer: "CUSTOMER", start_time: "0", end_time: "60" };
const SESSION = {
  mode: "payment",
  success_url: "https://shop.example/",
  "line_items[0][quantity]": "1",
  "line_items[0][price_data][currency]": "usd",
  "line_items[0][price_data][unit_amount]": "500",
  "line_items[0][price_data][product_data][name]": "A book",
};

/** The capital words stand for ids of the double. */
const CALLS: readonly (readonly [
  method: "GET" | "POST",
  path: string,
  parameters: Parameters,
  status: number,
])[] = [
  ["GET", "/v1/billing/meters/METER/event_summaries", SUMMARY, 200],
  ["GET", "/v1/billing/meters/METER/event_summaries", { ...SUMMARY, start_time: "1" }, 400],
  ["GET", "/v1/billing/meters/METER/event_summaries", { ...SUMMARY, end_time: "0" }, 400],
  ["GET", "/v1/billing/meters/METER/event_summaries", { ...SUMMARY, limit: "101" }, 400],
  ["POST", "/v1/subscriptions/SUBSCRIPTION", { "items[0]": "price_none" }, 400],
  ["POST", "/v1/subscriptions/SUBSCRIPTION", { status: "paused" }, 400],
  ["GET", "/v1/subscriptions", { customer: "cus_none" }, 400],
  ["GET", "/v1/invoices", { customer: "cus_none" }, 400],
  ["GET", "/v1/invoices/in_none/lines", {}, 404],
  ["POST", "/v1/checkout/sessions", SESSION, 200],
  ["POST", "/v1/checkout/sessions", { ...SESSION, success_url: "shop.example" }, 400],
  ["POST", "/v1/checkout/sessions", { ...SESSION, colour: "green" }, 400],
  ["GET", "/v1/checkout/sessions/cs_unknown", {}, 404],
];

test("calls with parameters that Stripe refuses are refused", async (t) => {
  const { control, call } = await stageDouble(t);
  const { customerId, subscriptionId } = control.addSubscriber({});
  const withIds = (text: string): string =>
    text
      .replace("METER", control.meterIds().tree)
      .replace("SUBSCRIPTION", subscriptionId)
      .replace("CUSTOMER", customerId);
  for (const [method, path, parameters, status] of CALLS) {
    const given = Object.entries(parameters).map(([name, value]) => [name, withIds(value)]);
    const answer = await call(method, withIds(path), Object.fromEntries(given));
    t.is(answer.status, status, `${method} ${path} ${JSON.stringify(parameters)}`);
  }
  t.deepEqual(control.problems(), []);
});

test("what the double does not model is a problem, and a wrong or missing key is rejected", async (t) => {
  const { double, control, call } = await stageDouble(t);
  t.is((await call("POST", "/v1/invoices")).status, 404);
  t.is((await call("GET", "/v1/billing/meters/x/y/z")).status, 404);
  t.is(control.problems().length, 2);
  t.is((await call("GET", "/v1/billing/meters", {}, { authorization: "Bearer sk_x" })).status, 401);
  t.is((await fetch(`${double.url}/v1/billing/meters`)).status, 401);
});

test("the double runs as a program that is controlled over HTTP", async (t) => {
  const program = spawn(process.execPath, [MAIN], { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => program.kill("SIGKILL"));
  const lines: string[] = [];
  for await (const line of createInterface(program.stdout)) {
    lines.push(line);
    if (lines.length === 3) {
      break;
    }
  }
  const [url = "", secretKey = ""] = lines.map((line) => line.split("=")[1] ?? "");
  const customerId = lines[2]?.match(/cus_\w+/u)?.[0] ?? "";
  const control = async (name: string, argument: unknown = {}): Promise<unknown> => {
    const body = JSON.stringify(argument);
    return (await fetch(`${url}/_double/${name}`, { method: "POST", body })).json();
  };
  const event = { event_name: "impact_tree_planted", [CUSTOMER]: customerId, [VALUE]: "2" };
  const send = (): Promise<Response> =>
    fetch(`${url}/v1/billing/meter_events`, {
      method: "POST",
      headers: { authorization: `Bearer ${secretKey}` },
      body: new URLSearchParams({ ...event, timestamp: String(NOW) }),
    });
  await control("holdClock", { second: NOW });
  await control("addFault", { kind: "drop", applied: true });
  await t.throwsAsync(send());
  t.is((await send()).status, 200);
  const usage = { meter: "impact_tree_planted", second: NOW, value: 4 };
  t.deepEqual(await control("usage"), { result: [{ customer: customerId, ...usage }] });
  t.like(await control("nothing"), { error: "The double has no control nothing." });
  const exited = once(program, "exit");
  program.kill("SIGTERM");
  t.deepEqual(await exited, [0, null]);
});
