import test from "ava";
import { Stripe } from "stripe";
import type { AttemptOutcome } from "../../../modules/billing/sending/decideNextStep.rules.ts";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";
import { createStripeProcessor } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { outcomeOfError } from "../../../modules/billing/stripe/outcomeOfResponse.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { known, never, setUpStripe, unknown } from "./stripeSetup.ts";

const error = (fields: Record<string, string>): { error: Record<string, string> } => ({
  error: { type: "invalid_request_error", message: "As given.", ...fields },
});

const hasOutcome = test.macro({
  exec: async (t, fault: Fault, expected: Partial<AttemptOutcome>) => {
    const { double, processor, event } = await setUpStripe(t);
    double.control.addFault(fault);

    const outcome = await processor.send(event(), never);

    t.like(outcome, expected);
  },
  title: (title = "") => title,
});
const tooMany = { kind: "rate_limited" } as const;

const respond = (status: number, body: unknown, headers: Record<string, string> = {}): Fault => ({
  kind: "respond",
  status,
  body,
  headers,
});

test("a 400 is a rejection", hasOutcome, respond(400, error({}), { "request-id": "req_1" }), {
  kind: "rejected",
  reason: "As given. (status 400, request req_1)",
});
test("a 404 is a rejection", hasOutcome, respond(404, error({ code: "resource_missing" })), {
  kind: "rejected",
});
test(
  "a 400 with the message for a known identifier is a duplicate",
  hasOutcome,
  respond(400, error({ message: "An event already exists with identifier x." })),
  { kind: "duplicate" },
);
test(
  "a 400 with the duplicate code is a duplicate",
  hasOutcome,
  respond(400, error({ code: "duplicate_meter_event" })),
  { kind: "duplicate" },
);
test(
  "an idempotency error is a conflict",
  hasOutcome,
  respond(400, error({ type: "idempotency_error" })),
  { kind: "conflict" },
);
test("a 401 is a misconfiguration", hasOutcome, respond(401, error({})), {
  kind: "misconfigured",
  newKey: false,
});
test("a 402 is a rejection", hasOutcome, respond(402, error({ type: "card_error" })), {
  kind: "rejected",
});
test("a 403 is a misconfiguration", hasOutcome, respond(403, error({})), {
  kind: "misconfigured",
});
test(
  "a 409 is retried with the same key, and its outcome is known",
  hasOutcome,
  respond(409, error({})),
  {
    ...known,
    newKey: false,
  },
);
test(
  "a 409 of the idempotency key is retried",
  hasOutcome,
  respond(409, error({ type: "idempotency_error", code: "idempotency_key_in_use" })),
  known,
);
test("a 429 says that there are too many calls", hasOutcome, { kind: "rate_limit" }, tooMany);
test(
  "a 400 with the rate limit code says that there are too many calls",
  hasOutcome,
  respond(400, error({ code: "rate_limit" })),
  tooMany,
);
test("a lock timeout is retried", hasOutcome, { kind: "lock_timeout" }, known);
test(
  "a lock timeout in a 400 is retried",
  hasOutcome,
  respond(400, error({ code: "lock_timeout" })),
  known,
);
test(
  "a 500 that allows a retry is retried with the same key",
  hasOutcome,
  { kind: "server_error" },
  {
    ...unknown,
    newKey: false,
  },
);
test("a 503 is retried", hasOutcome, respond(503, error({ type: "api_error" })), unknown);
test(
  "a saved 500 needs a new key",
  hasOutcome,
  { kind: "server_error_saved" },
  { ...unknown, newKey: true },
);
const replayed = { "idempotent-replayed": "true" };
test("a replayed 500 needs a new key", hasOutcome, respond(500, error({}), replayed), {
  ...unknown,
  newKey: true,
});
test("a replayed 403 needs a new key", hasOutcome, respond(403, error({}), replayed), {
  kind: "misconfigured",
  newKey: true,
});
test(
  "a replayed rate limit needs a new key and lowers no rate",
  hasOutcome,
  respond(400, error({ code: "rate_limit" }), replayed),
  { ...known, newKey: true },
);
test("a 502 in HTML is an unknown outcome", hasOutcome, { kind: "bad_gateway" }, unknown);
test(
  "a 200 that cannot be read is an unknown outcome",
  hasOutcome,
  { kind: "broken_json" },
  unknown,
);
test(
  "a 200 with another object is an unknown outcome",
  hasOutcome,
  respond(200, { ok: true }),
  unknown,
);
test("a 200 with null is an unknown outcome", hasOutcome, respond(200, "null"), unknown);
test("a reset is an unknown outcome", hasOutcome, { kind: "drop" }, unknown);
test("a truncated response is an unknown outcome", hasOutcome, { kind: "truncate" }, unknown);
test("a 418 is a rejection", hasOutcome, respond(418, error({})), { kind: "rejected" });

test("a rate limit of API v2 says that there are too many calls", async (t) => {
  const { double } = await setUpStripe(t);
  const path = "/v2/billing/meter_events";
  double.control.addFault({ ...respond(429, error({ type: "rate_limit" })), path });
  const { stripe } = createStripeClient({ apiBase: double.url, secretKey: double.secretKey });

  const failure = await t.throwsAsync(
    stripe.v2.billing.meterEvents.create({ event_name: "x", payload: {} }),
    { instanceOf: Stripe.errors.StripeError },
  );

  t.is(failure?.type, "RateLimitError");
  t.like(outcomeOfError(failure), tooMany);
});

test("a redirect is not followed and is an unknown outcome", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const elsewhere = await startStripeDouble();
  t.teardown(elsewhere.close);
  for (const status of [302, 307]) {
    double.control.addFault(respond(status, "", { location: `${elsewhere.url}/v1/customers` }));

    t.like(await processor.send(event(), never), unknown);
  }
  t.deepEqual(elsewhere.control.calls(), []);
  t.is(billed(), 0);
});

test("a refused connection is an unknown outcome with its reason", async (t) => {
  const { event } = await setUpStripe(t);
  const gone = await startStripeDouble();
  const processor = createStripeProcessor({ apiBase: gone.url, secretKey: gone.secretKey });
  await processor.prepare();
  await gone.close();
  // The first call finds its idle connection closed; only the next connection is refused.
  t.like(await processor.send(event(), never), unknown);

  const outcome = await processor.send(event(), never);

  t.like(outcome, unknown);
  t.regex(outcome.kind === "retry" ? outcome.reason : "", /ECONNREFUSED/u);
});

test("a wrong key is a misconfiguration whose reason does not contain the key", async (t) => {
  const { double, processor, event } = await setUpStripe(t);
  const secretKey = "sk_test_wrong";
  const wrong = createStripeProcessor({ apiBase: double.url, secretKey });

  const refused = await wrong.send(event(), never);
  double.control.addFault(respond(403, error({ message: `The key rk_live_abc**** may not.` })));
  const forbidden = await processor.send(event(), never);

  t.is(refused.kind, "misconfigured");
  t.is(forbidden.kind, "misconfigured");
  t.false(JSON.stringify(refused).includes(secretKey));
  t.false(JSON.stringify(forbidden).includes("rk_live"));
});

test("another event with a used identifier is a rejection", async (t) => {
  const { processor, event, billed } = await setUpStripe(t);
  const used = event();
  await processor.send(used, never);

  t.is((await processor.send({ ...used, quantity: 4 }, never)).kind, "conflict");
  t.is(billed(), 3);
});

test("an event of an account without a customer is a rejection and makes no call", async (t) => {
  const { double, processor, event, customer } = await setUpStripe(t);
  const before = double.control.calls().length;

  const outcome = await processor.send(
    event({ customer: { ...customer, customerId: null } }),
    never,
  );

  t.deepEqual(outcome, {
    kind: "rejected",
    reason: "The account account has no Stripe customer; set one and retry.",
  });
  t.is(double.control.calls().length, before);
});

test("an event of an unknown customer is a rejection that names the customer", async (t) => {
  const { processor, event, customer } = await setUpStripe(t);

  const outcome = await processor.send(
    event({ customer: { ...customer, customerId: "cus_gone" } }),
    never,
  );

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
