import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import test from "ava";
import { stageDouble } from "./doubleScene.ts";
import type { callDouble } from "./doubleScene.ts";
import { deriveRequestSchemas } from "./requests/requestSchemas.ts";

const DAY = 86_400;
const EVENTS = "/v1/billing/meter_events";

test("the request schemas match the installed SDK", async (t) => {
  const stored = await readFile(new URL("./requests/requestSchemas.json", import.meta.url), "utf8");

  t.deepEqual(JSON.parse(stored), deriveRequestSchemas());
});

test("an identifier is rejected for 24 hours, with a message and no code", async (t) => {
  const { double, sendEvent, billed } = await stageDouble(t);
  t.is((await sendEvent({ identifier: "one" })).status, 200);
  double.control.advanceClock({ seconds: DAY - 5 });

  const refused = await sendEvent({ identifier: "one" });

  t.is(refused.status, 400);
  t.is(refused.headers.get("stripe-should-retry"), "false");
  t.deepEqual(refused.body, {
    error: {
      type: "invalid_request_error",
      message: "An event already exists with identifier one.",
    },
  });
  double.control.advanceClock({ seconds: 10 });
  t.is((await sendEvent({ identifier: "one" })).status, 200);
  t.is(billed(), 2);
});

const rejectsEvent = test.macro({
  exec: async (t, changes: Record<string, string>, message: RegExp) => {
    const { sendEvent, billed } = await stageDouble(t);

    const { status, body } = await sendEvent(changes);

    t.is(status, 400);
    t.regex(JSON.stringify(body), message);
    t.is(billed(), 0);
  },
  title: (wrong = "") => `an event with ${wrong} is rejected`,
});
test("an unknown parameter", rejectsEvent, { quantity: "1" }, /unknown parameter: quantity/u);
test("no event name", rejectsEvent, { event_name: "" }, /Missing required param: event_name/u);
test("an unknown event name", rejectsEvent, { event_name: "other" }, /No active meter found/u);
test(
  "an identifier that is too long",
  rejectsEvent,
  { identifier: "x".repeat(101) },
  /identifier/u,
);
test("a fractional timestamp", rejectsEvent, { timestamp: "1.5" }, /Invalid timestamp/u);
test("no customer", rejectsEvent, { "payload[stripe_customer_id]": "" }, /stripe_customer_id/u);
test(
  "an unknown customer",
  rejectsEvent,
  { "payload[stripe_customer_id]": "cus_x" },
  /No such customer/u,
);
test("no value", rejectsEvent, { "payload[value]": "" }, /meter_event_value_not_found/u);
test(
  "a value that is not a number",
  rejectsEvent,
  { "payload[value]": "two" },
  /meter_event_invalid_value/u,
);
test(
  "16 significant digits",
  rejectsEvent,
  { "payload[value]": "1234567890.123456" },
  /meter_event_value_too_many_digits/u,
);

test("values can be negative, fractional and have 15 digits", async (t) => {
  const { sendEvent, billed } = await stageDouble(t);

  for (const value of ["-3", "0.5", "999999999999999", "-999999999999999"]) {
    t.is((await sendEvent({ "payload[value]": value })).status, 200, value);
  }
  t.is(billed(), -2.5);
});

test("timestamps can be up to 35 days old and 5 minutes ahead", async (t) => {
  const { double, sendEvent } = await stageDouble(t);
  const now = 1_800_000_000;
  double.control.holdClock({ second: now });
  const statusAt = async (second: number): Promise<number> =>
    (await sendEvent({ timestamp: String(second) })).status;

  t.is(await statusAt(now - 35 * DAY), 200);
  t.is(await statusAt(now - 35 * DAY - 1), 400);
  t.is(await statusAt(now + 300), 200);
  t.is(await statusAt(now + 301), 400);
});

test("a key repeats its first response for 24 hours and rejects other parameters", async (t) => {
  const { double, customerId, call, billed } = await stageDouble(t);
  const send = (value: string): ReturnType<typeof callDouble> =>
    call(
      "POST",
      EVENTS,
      {
        event_name: "impact_tree_planted",
        "payload[stripe_customer_id]": customerId,
        "payload[value]": value,
      },
      { "idempotency-key": "key" },
    );

  const first = await send("1");
  const replay = await send("1");
  const other = await send("2");

  t.deepEqual(replay.body, first.body);
  t.is(replay.headers.get("idempotent-replayed"), "true");
  t.is(other.status, 400);
  t.like(other.body, { error: { type: "idempotency_error" } });
  t.is(billed(), 1);
  double.control.advanceClock({ seconds: DAY });
  t.is((await send("2")).status, 200);
  t.is(billed(), 3);
});

test("errors for invalid parameters are not stored under the key", async (t) => {
  const { customerId, call, sendEvent } = await stageDouble(t);
  const key = { "idempotency-key": "key" };
  const wrong = await call("POST", EVENTS, { event_name: "impact_tree_planted" }, key);
  const right = await call(
    "POST",
    EVENTS,
    {
      event_name: "impact_tree_planted",
      "payload[stripe_customer_id]": customerId,
      "payload[value]": "1",
    },
    key,
  );

  t.is(wrong.status, 400);
  t.is(right.status, 200);
  t.is((await sendEvent()).status, 200);
});

test("an event that is rejected later is not billed", async (t) => {
  const { double, sendEvent, billed } = await stageDouble(t);
  double.control.addFault({ kind: "reject_later", code: "archived_meter" });

  t.is((await sendEvent({ identifier: "late" })).status, 200);

  t.is(billed(), 0);
  t.like(double.control.events()[0], { identifier: "late", rejectedWith: "archived_meter" });
});

test("summaries are sums by hour, by day or of the whole range, newest first, in pages", async (t) => {
  const { double, customerId, call, sendEvent } = await stageDouble(t);
  const day = 1_800_000_000 - (1_800_000_000 % DAY);
  double.control.holdClock({ second: day + 2 * DAY });
  const path = `/v1/billing/meters/${double.control.meterIds().tree}/event_summaries`;
  for (const second of [day, day + 3599, day + 3600, day + 5 * 3600, day + DAY]) {
    await sendEvent({ timestamp: String(second) });
  }
  const read = async (
    start: number,
    end: number,
    more: Record<string, string> = {},
  ): Promise<{ status: number; sums: unknown; body: Record<string, unknown> }> => {
    const { status, body } = await call("GET", path, {
      customer: customerId,
      start_time: String(start),
      end_time: String(end),
      ...more,
    });
    const data = Array.isArray(body["data"]) ? body["data"] : [];
    return {
      status,
      body,
      sums: data.map(({ start_time, aggregated_value }) => [start_time - day, aggregated_value]),
    };
  };

  t.deepEqual((await read(day, day + 60)).sums, [[0, 1]]);
  t.deepEqual((await read(day, day + 2 * DAY)).sums, [[0, 5]]);
  t.deepEqual((await read(day + 60, day + 120)).sums, []);
  t.deepEqual((await read(day, day + DAY, { value_grouping_window: "hour" })).sums, [
    [18_000, 1],
    [3600, 1],
    [0, 2],
  ]);
  t.deepEqual((await read(day, day + 2 * DAY, { value_grouping_window: "day" })).sums, [
    [DAY, 1],
    [0, 4],
  ]);
  t.is((await read(day + 1, day + 60)).status, 400);
  t.is((await read(day + 60, day + 3600, { value_grouping_window: "hour" })).status, 400);
  t.is((await read(day, day + 3600, { value_grouping_window: "day" })).status, 400);
  t.is((await read(day, day + 3600, { value_grouping_window: "minute" })).status, 400);
  t.is((await read(day, day)).status, 400);
  const page = await read(day, day + DAY, { value_grouping_window: "hour", limit: "2" });
  t.like(page, {
    sums: [
      [18_000, 1],
      [3600, 1],
    ],
    body: { has_more: true },
  });
});

test("an unsupported call fails and is listed as a problem", async (t) => {
  const { double, call } = await stageDouble(t);

  t.is((await call("POST", "/v1/invoices")).status, 404);
  t.is((await call("GET", "/v1/billing/meters/x/y/z")).status, 404);
  t.deepEqual(double.control.problems().length, 2);
});

test("a wrong or missing key is rejected", async (t) => {
  const { double, call } = await stageDouble(t);

  t.is((await call("GET", "/v1/billing/meters", {}, { authorization: "Bearer sk_x" })).status, 401);
  t.is((await fetch(`${double.url}/v1/billing/meters`)).status, 401);
});

test("the double runs as a program that is controlled over HTTP", async (t) => {
  const program = spawn(process.execPath, [new URL("./main.ts", import.meta.url).pathname], {
    stdio: ["ignore", "pipe", "inherit"],
  });
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
    const response = await fetch(`${url}/_double/${name}`, {
      method: "POST",
      body: JSON.stringify(argument),
    });
    return response.json();
  };
  const send = (): Promise<Response> =>
    fetch(`${url}${EVENTS}`, {
      method: "POST",
      headers: { authorization: `Bearer ${secretKey}` },
      body: new URLSearchParams({
        event_name: "impact_tree_planted",
        "payload[stripe_customer_id]": customerId,
        "payload[value]": "2",
        timestamp: "1800000000",
      }),
    });
  await control("holdClock", { second: 1_800_000_000 });
  await control("addFault", { kind: "drop", applied: true });

  await t.throwsAsync(send());
  t.is((await send()).status, 200);

  t.deepEqual(await control("usage"), {
    result: [
      { customer: customerId, meter: "impact_tree_planted", second: 1_800_000_000, value: 4 },
    ],
  });
  t.like(await control("nothing"), { error: "The double has no control nothing." });
  const exited = once(program, "exit");
  program.kill("SIGTERM");
  t.deepEqual(await exited, [0, null]);
});
