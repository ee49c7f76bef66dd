import test from "ava";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { stageDouble } from "./doubleScene.ts";

const DAY = 86_400;
const run = promisify(execFile);
const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));

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

const CUSTOMER = "payload[stripe_customer_id]";
const VALUE = "payload[value]";

test("events that Stripe refuses are refused, with its messages", async (t) => {
  const { sendEvent, billed } = await stageDouble(t);
  const refused: readonly (readonly [Readonly<Record<string, string>>, RegExp])[] = [
    [{ quantity: "1" }, /unknown parameter: quantity/u],
    [{ event_name: "" }, /Missing required param: event_name/u],
    [{ event_name: "other" }, /No active meter found/u],
    [{ identifier: "x".repeat(101) }, /Invalid identifier/u],
    [{ timestamp: "1.5" }, /Invalid timestamp/u],
    [{ [CUSTOMER]: "" }, /stripe_customer_id/u],
    [{ [CUSTOMER]: "cus_x" }, /No such customer/u],
    [{ [VALUE]: "" }, /meter_event_value_not_found/u],
    [{ [VALUE]: "two" }, /meter_event_invalid_value/u],
    [{ [VALUE]: "1234567890.123456" }, /meter_event_value_too_many_digits/u],
  ];
  for (const [changes, message] of refused) {
    const { status, body } = await sendEvent(changes);
    t.is(status, 400);
    t.regex(JSON.stringify(body), message);
  }
  t.is(billed(), 0);
});

test("values can be negative, fractional and have 15 digits", async (t) => {
  const { sendEvent, billed } = await stageDouble(t);
  for (const value of ["-3", "0.5", "999999999999999", "-999999999999999"]) {
    t.is((await sendEvent({ [VALUE]: value })).status, 200, value);
  }
  t.is(billed(), -2.5);
});

test("timestamps can be up to 35 days old and 5 minutes ahead", async (t) => {
  const { control, sendEvent } = await stageDouble(t);
  const now = 1_800_000_000;
  control.holdClock({ second: now });
  for (const [second, status] of [
    [now - 35 * DAY, 200],
    [now - 35 * DAY - 1, 400],
    [now + 300, 200],
    [now + 301, 400],
  ] as const) {
    t.is((await sendEvent({ timestamp: String(second) })).status, status);
  }
});

test("a key repeats its first response for 24 hours and rejects other parameters", async (t) => {
  const { control, sendEvent, billed } = await stageDouble(t);
  const send = (value: string) => sendEvent({ [VALUE]: value }, { "idempotency-key": "key" });
  const first = await send("1");
  const replay = await send("1");
  const other = await send("2");
  t.deepEqual(replay.body, first.body);
  t.is(replay.headers.get("idempotent-replayed"), "true");
  t.is(other.status, 400);
  t.like(other.body, { error: { type: "idempotency_error" } });
  t.is(billed(), 1);
  control.advanceClock({ seconds: DAY });
  t.is((await send("2")).status, 200);
  t.is(billed(), 3);
});

test("errors for invalid parameters are not stored under the key", async (t) => {
  const { sendEvent } = await stageDouble(t);
  const key = { "idempotency-key": "key" };
  t.is((await sendEvent({ event_name: "" }, key)).status, 400);
  t.is((await sendEvent({}, key)).status, 200);
});

test("an event that is rejected later is not billed", async (t) => {
  const { control, sendEvent, billed } = await stageDouble(t);
  control.addFault({ kind: "reject_later", code: "archived_meter" });
  t.is((await sendEvent({ identifier: "late" })).status, 200);
  t.is(billed(), 0);
  t.like(control.events()[0], { identifier: "late", rejectedWith: "archived_meter" });
});

test("a summary is the sum of whole minutes", async (t) => {
  const { control, customerId, call, sendEvent } = await stageDouble(t);
  const day = 1_800_000_000 - (1_800_000_000 % DAY);
  control.holdClock({ second: day + 2 * DAY });
  for (const second of [day, day + 3599, day + 3600, day + DAY]) {
    await sendEvent({ timestamp: String(second) });
  }
  const path = `/v1/billing/meters/${control.meterIds().tree}/event_summaries`;
  const read = async (start: number, end: number, more: Readonly<Record<string, string>> = {}) => {
    const span = { start_time: String(start), end_time: String(end) };
    return call("GET", path, { customer: customerId, ...span, ...more });
  };
  t.like((await read(day, day + 60)).body, { data: [{ aggregated_value: 1, start_time: day }] });
  t.like((await read(day, day + 2 * DAY)).body, { data: [{ aggregated_value: 4 }] });
  t.like((await read(day + 60, day + 120)).body, { data: [], has_more: false });
  t.is((await read(day + 1, day + 60)).status, 400);
  t.is((await read(day, day)).status, 400);
  t.is((await read(day, day + 60, { limit: "101" })).status, 400);
});

test("a call that the double does not model fails and is listed as a problem", async (t) => {
  const { control, call } = await stageDouble(t);
  t.is((await call("POST", "/v1/invoices")).status, 404);
  t.is((await call("GET", "/v1/billing/meters/x/y/z")).status, 404);
  t.is(control.problems().length, 2);
});

test("a wrong or missing key is rejected", async (t) => {
  const { double, call } = await stageDouble(t);
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
  const send = (): Promise<Response> =>
    fetch(`${url}/v1/billing/meter_events`, {
      method: "POST",
      headers: { authorization: `Bearer ${secretKey}` },
      body: new URLSearchParams({
        event_name: "impact_tree_planted",
        [CUSTOMER]: customerId,
        [VALUE]: "2",
        timestamp: "1800000000",
      }),
    });
  await control("holdClock", { second: 1_800_000_000 });
  await control("addFault", { kind: "drop", applied: true });
  await t.throwsAsync(send());
  t.is((await send()).status, 200);
  const usage = { meter: "impact_tree_planted", second: 1_800_000_000, value: 4 };
  t.deepEqual(await control("usage"), { result: [{ customer: customerId, ...usage }] });
  t.like(await control("nothing"), { error: "The double has no control nothing." });
  const exited = once(program, "exit");
  program.kill("SIGTERM");
  t.deepEqual(await exited, [0, null]);
});

test("npm run stripe-double -- --help prints how it is used, and an unknown option is an error without a stack", async (t) => {
  t.regex(
    (await run(process.execPath, [MAIN, "--help"])).stdout,
    /^Usage: npm run stripe-double -- \[options\]\n[^]*--port <port>/u,
  );
  await t.throwsAsync(run(process.execPath, [MAIN, "--prot"]), {
    message: /error: unknown option '--prot'\n\(Did you mean --port\?\)\n$/u,
  });
});
