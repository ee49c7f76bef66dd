import test from "ava";
import type { AttemptOutcome } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { createStripeProcessor } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { eventually } from "../../support/programs.ts";
import { known, never, setUpStripe, unknown } from "./stripeSetup.ts";

const error = (fields: Record<string, string>): { error: Record<string, string> } => ({
  error: { type: "invalid_request_error", message: "As given.", ...fields },
});

const tooMany = { kind: "rate_limited" } as const;
const rejected = { kind: "rejected" } as const;
const misconfigured = { kind: "misconfigured" } as const;
const sameKey = { newKey: false };
const newKey = { newKey: true };

const respond = (status: number, body: unknown, headers: Record<string, string> = {}): Fault => ({
  kind: "respond",
  status,
  body,
  headers,
});
/** A response that an idempotency key repeats. */
const replayed = (status: number, fields: Record<string, string> = {}): Fault =>
  respond(status, error(fields), { "idempotent-replayed": "true" });

const IN_USE = { type: "idempotency_error", code: "idempotency_key_in_use" };
const OUTCOMES: Readonly<Record<string, readonly [Fault, Partial<AttemptOutcome>]>> = {
  "a 400 is a rejection": [
    respond(400, error({}), { "request-id": "req_1" }),
    { kind: "rejected", reason: "As given. (status 400, request req_1)" },
  ],
  "a 404 is a rejection": [respond(404, error({ code: "resource_missing" })), rejected],
  "a 402 is a rejection": [respond(402, error({ type: "card_error" })), rejected],
  "a 418 is a rejection": [respond(418, error({})), rejected],
  "a 400 with the message for a known identifier is a duplicate": [
    respond(400, error({ message: "An event already exists with identifier x." })),
    { kind: "duplicate" },
  ],
  "a 400 with the duplicate code is a duplicate": [
    respond(400, error({ code: "duplicate_meter_event" })),
    { kind: "duplicate" },
  ],
  "an idempotency error is a conflict": [
    respond(400, error({ type: "idempotency_error" })),
    { kind: "conflict" },
  ],
  "a 401 is a misconfiguration": [respond(401, error({})), { ...misconfigured, ...sameKey }],
  "a 403 is a misconfiguration whose reason does not contain the key": [
    respond(403, error({ message: "The key rk_live_abc**** may not." }), { "request-id": "req_1" }),
    { ...misconfigured, reason: "The key (key) may not. (status 403, request req_1)" },
  ],
  "a 409 is retried with the same key, and its outcome is known": [
    respond(409, error({})),
    { ...known, ...sameKey },
  ],
  "a 409 of the idempotency key is retried": [respond(409, error(IN_USE)), known],
  "a 429 says that there are too many calls": [{ kind: "rate_limit" }, tooMany],
  "a 400 with the rate limit code says that there are too many calls": [
    respond(400, error({ code: "rate_limit" })),
    tooMany,
  ],
  "a lock timeout is retried": [{ kind: "lock_timeout" }, known],
  "a lock timeout in a 400 is retried": [respond(400, error({ code: "lock_timeout" })), known],
  "a 500 that allows a retry is retried with the same key": [
    { kind: "server_error" },
    { ...unknown, ...sameKey },
  ],
  "a 503 is retried": [respond(503, error({ type: "api_error" })), unknown],
  "a saved 500 needs a new key": [{ kind: "server_error_saved" }, { ...unknown, ...newKey }],
  "a replayed 500 needs a new key": [replayed(500), { ...unknown, ...newKey }],
  "a replayed 403 needs a new key": [replayed(403), { ...misconfigured, ...newKey }],
  "a replayed rate limit needs a new key and lowers no rate": [
    replayed(400, { code: "rate_limit" }),
    { ...known, ...newKey },
  ],
  "a 502 in HTML is an unknown outcome": [{ kind: "bad_gateway" }, unknown],
  "a 200 that cannot be read is an unknown outcome": [{ kind: "broken_json" }, unknown],
  "a 200 with another object is an unknown outcome": [respond(200, { ok: true }), unknown],
  "a 200 with null is an unknown outcome": [respond(200, "null"), unknown],
  "a reset is an unknown outcome": [{ kind: "drop" }, unknown],
  "a truncated response is an unknown outcome": [{ kind: "truncate" }, unknown],
};

for (const [title, [fault, expected]] of Object.entries(OUTCOMES)) {
  test(title, async (t) => {
    const { double, processor, event } = await setUpStripe(t);
    double.control.addFault(fault);
    t.like(await processor.send(event(), never), expected);
    // The SDK does not retry.
    t.is(double.control.sends(), 1);
  });
}

test("a redirect is not followed and is an unknown outcome", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const elsewhere = await startStripeDouble(t);
  for (const status of [302, 307]) {
    double.control.addFault(respond(status, "", { location: `${elsewhere.url}/v1/customers` }));

    t.like(await processor.send(event(), never), unknown);
  }
  t.deepEqual(elsewhere.control.calls(), []);
  t.is(billed(), 0);
});

test("a refused connection is an unknown outcome with its reason", async (t) => {
  const { event } = await setUpStripe(t);
  const gone = await startStripeDouble(t);
  const processor = createStripeProcessor({ apiBase: gone.url, secretKey: gone.secretKey });
  await processor.prepare();
  await gone.close();
  // The first call finds its idle connection closed; only the next connection is refused.
  t.like(await processor.send(event(), never), unknown);

  const outcome = await processor.send(event(), never);

  t.like(outcome, unknown);
  t.regex(outcome.kind === "retry" ? outcome.reason : "", /ECONNREFUSED/u);
});

for (const [title, changes, signal, expected] of [
  [
    "an event of an account without a customer is a rejection and makes no call",
    { customerId: null },
    never,
    { kind: "rejected", reason: "The organization has no Stripe customer." },
  ],
  ["a call that is aborted before it starts is not made", {}, AbortSignal.abort(), known],
] as const) {
  test(title, async (t) => {
    const { double, processor, event } = await setUpStripe(t);
    const before = double.control.calls().length;
    t.like(await processor.send(event(changes), signal), expected);
    t.is(double.control.calls().length, before);
  });
}

test("an event of an unknown customer is a rejection that names the customer", async (t) => {
  const { processor, event } = await setUpStripe(t);

  const outcome = await processor.send(event({ customerId: "cus_gone" }), never);

  t.is(outcome.kind, "rejected");
  t.regex(outcome.kind === "rejected" ? outcome.reason : "", /No such customer: 'cus_gone'/u);
});

test("an event ahead of Stripe's clock is retried with a new key", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const ahead = event({ second: double.control.now() + 600 });

  t.like(await processor.send(ahead, never), { ...known, newKey: true });
  double.control.advanceClock({ seconds: 600 });
  t.like(await processor.send({ ...ahead, keyGeneration: 1 }, never), { kind: "delivered" });
  t.is(billed(), 3);
});

test("an event is sent with its customer, value, identifier and second", async (t) => {
  const { double, processor, event, customerId } = await setUpStripe(t);
  const negative = event({ kind: "bottle", quantity: -12 });

  t.deepEqual(await processor.send(negative, never), { kind: "delivered" });

  const call = double.control.calls().at(-1);
  t.deepEqual(Object.fromEntries(new URLSearchParams(call?.form)), {
    event_name: "impact_plastic_bottle_rescued",
    identifier: negative.identifier,
    "payload[stripe_customer_id]": customerId,
    "payload[value]": "-12",
    timestamp: String(negative.second),
  });
  t.is(call?.idempotencyKey, negative.identifier);
  const meter = "impact_plastic_bottle_rescued";
  const { second } = negative;
  t.deepEqual(double.control.usage({}), [{ customer: customerId, meter, second, value: -12 }]);
});

test("the same event sent again is a duplicate, under another key too, and billed once", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const once = event();

  t.is((await processor.send(once, never)).kind, "delivered");

  t.like(await processor.send(once, never), { kind: "duplicate" });
  t.like(await processor.send({ ...once, keyGeneration: 2 }, never), { kind: "duplicate" });
  t.is(billed(), 3);
  const [first, , later] = double.control.calls().slice(-3);
  t.is(later?.form, first?.form);
  t.is(later?.idempotencyKey, `${once.identifier}#2`);
});

test("an aborted call ends immediately with an unknown outcome", async (t) => {
  // If the signal were ignored, the test would time out before this call.
  const { double, processor, event } = await setUpStripe(t, { timeoutMs: 3_600_000 });
  double.control.addFault({ kind: "hang", applied: true });
  const abort = new AbortController();
  const sending = processor.send(event(), abort.signal);
  await eventually(() => double.control.events().length > 0);

  abort.abort();

  t.like(await sending, unknown);
});

test("of two concurrent calls for one customer and meter, the second is retried", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const [first, second, other] = [event(), event(), event({ kind: "bottle" })];
  double.control.addFault({ kind: "hold" });
  const held = processor.send(first, never);
  await eventually(() => double.control.held() > 0);

  const overlapping = await processor.send(second, never);
  const beside = await processor.send(other, never);
  double.control.release();

  t.like([overlapping, beside, await held], [known, { kind: "delivered" }, { kind: "delivered" }]);
  t.is(double.control.overlaps(), 1);
  t.is((await processor.send(second, never)).kind, "delivered");
  t.is(billed(), 9);
});

test("a base URL with a path is rejected", async (t) => {
  const double = await startStripeDouble(t);

  t.throws(() => createStripeProcessor({ apiBase: `${double.url}/v1`, secretKey: "sk_test_x" }), {
    message: /must not have a path/u,
  });
});
