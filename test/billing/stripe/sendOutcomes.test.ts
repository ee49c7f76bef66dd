import test from "ava";
import { Stripe } from "stripe";
import type { AttemptOutcome } from "../../../domain/billing/decideNextStep.ts";
import { createStripeClient } from "../../../providers/billing/stripe/createStripeClient.ts";
import { createStripeProcessor } from "../../../providers/billing/stripe/createStripeProcessor.ts";
import { outcomeOfError } from "../../../providers/billing/stripe/attemptOutcome.ts";
import type { Fault } from "../../stripeDouble/faults.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { known, never, setUpStripe, unknown } from "./stripeSetup.ts";

const error = (fields: Record<string, string>): { error: Record<string, string> } => ({
  error: { type: "invalid_request_error", message: "As told.", ...fields },
});

const answers = test.macro({
  exec: async (t, fault: Fault, expected: Partial<AttemptOutcome>) => {
    const { double, processor, event } = await setUpStripe(t);
    double.control.addFault(fault);

    const outcome = await processor.send(event(), never);

    t.like(outcome, expected);
  },
  title: (title = "") => title,
});
const answer = (status: number, body: unknown, headers: Record<string, string> = {}): Fault => ({
  kind: "respond",
  status,
  body,
  headers,
});

test("a 400 is a rejection", answers, answer(400, error({}), { "request-id": "req_1" }), {
  kind: "rejected",
  reason: "As told. (status 400, request req_1)",
});
test("a 404 is a rejection", answers, answer(404, error({ code: "resource_missing" })), {
  kind: "rejected",
});
test(
  "a 400 that says that the identifier is there already means delivered",
  answers,
  answer(400, error({ message: "An event already exists with identifier x." })),
  { kind: "delivered", duplicate: true },
);
test(
  "a 400 with the duplicate code means delivered",
  answers,
  answer(400, error({ code: "duplicate_meter_event" })),
  { kind: "delivered", duplicate: true },
);
test(
  "an idempotency error is a rejection",
  answers,
  answer(400, error({ type: "idempotency_error" })),
  { kind: "rejected" },
);
test("a 401 means that we are misconfigured", answers, answer(401, error({})), {
  kind: "misconfigured",
});
test("a 402 is a rejection", answers, answer(402, error({ type: "card_error" })), {
  kind: "rejected",
});
test("a 403 means that we are misconfigured", answers, answer(403, error({})), {
  kind: "misconfigured",
});
test("a 409 is tried again and known not to be there", answers, answer(409, error({})), known);
test(
  "a 409 of the idempotency key is tried again",
  answers,
  answer(409, error({ type: "idempotency_error", code: "idempotency_key_in_use" })),
  known,
);
test("a 429 is tried again", answers, { kind: "rate_limit" }, known);
test(
  "a 400 with the rate limit code is tried again",
  answers,
  answer(400, error({ code: "rate_limit" })),
  known,
);
test("a lock timeout is tried again", answers, { kind: "lock_timeout" }, known);
test(
  "a lock timeout in a 400 is tried again",
  answers,
  answer(400, error({ code: "lock_timeout" })),
  known,
);
test("a 500 that may be repeated is tried again", answers, { kind: "server_error" }, unknown);
test("a 503 is tried again", answers, answer(503, error({ type: "api_error" })), unknown);
test(
  "a 500 that is saved needs a new key",
  answers,
  { kind: "server_error_saved" },
  { kind: "retry_new_key" },
);
test("a 502 in HTML is an unknown outcome", answers, { kind: "bad_gateway" }, unknown);
test("a 200 that cannot be read is an unknown outcome", answers, { kind: "broken_json" }, unknown);
test("a 200 of something else is an unknown outcome", answers, answer(200, { ok: true }), unknown);
test("a 200 that is null is an unknown outcome", answers, answer(200, "null"), unknown);
test("a reset is an unknown outcome", answers, { kind: "drop" }, unknown);
test("an answer that breaks off is an unknown outcome", answers, { kind: "truncate" }, unknown);
test("a 418 is a rejection", answers, answer(418, error({})), { kind: "rejected" });

test("a rate limit of the second interface is tried again", async (t) => {
  const { double } = await setUpStripe(t);
  const path = "/v2/billing/meter_events";
  double.control.addFault({ ...answer(429, error({ type: "rate_limit" })), path });
  const { stripe } = createStripeClient({ apiBase: double.url, secretKey: double.secretKey });

  const failure = await t.throwsAsync(
    stripe.v2.billing.meterEvents.create({ event_name: "x", payload: {} }),
    { instanceOf: Stripe.errors.StripeError },
  );

  t.is(failure?.type, "RateLimitError");
  t.like(outcomeOfError(failure), known);
});

test("a redirect is not followed and is an unknown outcome", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const elsewhere = await startStripeDouble();
  t.teardown(elsewhere.close);
  for (const status of [302, 307]) {
    double.control.addFault(answer(status, "", { location: `${elsewhere.url}/v1/customers` }));

    t.like(await processor.send(event(), never), unknown);
  }
  t.deepEqual(elsewhere.control.calls(), []);
  t.is(billed(), 0);
});

test("a refused connection is an unknown outcome that says why", async (t) => {
  const { event } = await setUpStripe(t);
  const gone = await startStripeDouble();
  const processor = createStripeProcessor({ apiBase: gone.url, secretKey: gone.secretKey });
  await processor.prepare();
  await gone.close();
  // It finds the connection closed that was kept; only the next one is refused.
  t.like(await processor.send(event(), never), unknown);

  const outcome = await processor.send(event(), never);

  t.like(outcome, unknown);
  t.regex(outcome.kind === "retry" ? outcome.reason : "", /ECONNREFUSED/u);
});

test("a wrong key is a misconfiguration, and the reason does not hold it", async (t) => {
  const { double, processor, event } = await setUpStripe(t);
  const secretKey = "sk_test_wrong";
  const wrong = createStripeProcessor({ apiBase: double.url, secretKey });

  const refused = await wrong.send(event(), never);
  double.control.addFault(answer(403, error({ message: `The key rk_live_abc**** may not.` })));
  const forbidden = await processor.send(event(), never);

  t.is(refused.kind, "misconfigured");
  t.is(forbidden.kind, "misconfigured");
  t.false(JSON.stringify(refused).includes(secretKey));
  t.false(JSON.stringify(forbidden).includes("rk_live"));
});

test("another event under a used identifier is a rejection", async (t) => {
  const { processor, event, billed } = await setUpStripe(t);
  const used = event();
  await processor.send(used, never);

  t.is((await processor.send({ ...used, quantity: 4 }, never)).kind, "rejected");
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

test("an event of a customer whom Stripe does not know is a rejection that names it", async (t) => {
  const { processor, event, customer } = await setUpStripe(t);

  const outcome = await processor.send(
    event({ customer: { ...customer, customerId: "cus_gone" } }),
    never,
  );

  t.is(outcome.kind, "rejected");
  t.regex(outcome.kind === "rejected" ? outcome.reason : "", /No such customer: 'cus_gone'/u);
});

test("an event ahead of Stripe's clock is tried again", async (t) => {
  const { double, processor, event } = await setUpStripe(t);

  t.like(await processor.send(event({ second: double.control.now() + 600 }), never), known);
});
