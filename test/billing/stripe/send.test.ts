import test from "ava";
import { createStripeProcessor } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { known, never, setUpStripe, unknown, until } from "./stripeSetup.ts";

test("an event is sent with its customer, value, identifier and second", async (t) => {
  const { double, processor, event, customer } = await setUpStripe(t);
  const negative = event({ kind: "bottle", quantity: -12 });

  t.deepEqual(await processor.send(negative, never), { kind: "delivered" });

  const call = double.control.calls().at(-1);
  t.deepEqual(Object.fromEntries(new URLSearchParams(call?.form)), {
    event_name: "impact_plastic_bottle_rescued",
    identifier: negative.identifier,
    "payload[stripe_customer_id]": customer.customerId,
    "payload[value]": "-12",
    timestamp: String(negative.second),
  });
  t.is(call?.idempotencyKey, negative.identifier);
  t.deepEqual(double.control.usage({}), [
    {
      customer: customer.customerId,
      meter: "impact_plastic_bottle_rescued",
      second: negative.second,
      value: -12,
    },
  ]);
});

test("a later key generation changes the idempotency key and nothing else", async (t) => {
  const { double, processor, event } = await setUpStripe(t);
  const first = event();

  await processor.send(first, never);
  await processor.send({ ...first, keyGeneration: 2 }, never);

  const [a, b] = double.control.calls().slice(-2);
  t.is(a?.form, b?.form);
  t.is(b?.idempotencyKey, `${first.identifier}#2`);
});

test("the same event sent again is a duplicate, under the same key too, and billed once", async (t) => {
  const { processor, event, billed } = await setUpStripe(t);
  const once = event();

  t.is((await processor.send(once, never)).kind, "delivered");

  t.like(await processor.send(once, never), { kind: "duplicate" });
  t.like(await processor.send({ ...once, keyGeneration: 1 }, never), { kind: "duplicate" });
  t.is(billed(), 3);
});

test("the SDK does not retry after a reset", async (t) => {
  const { double, processor, event } = await setUpStripe(t);
  const before = double.control.calls().length;
  double.control.addFault({ kind: "drop" });

  await processor.send(event(), never);

  t.is(double.control.calls().length, before + 1);
});

test("an aborted call ends immediately with an unknown outcome", async (t) => {
  // If the signal were ignored, the test would time out before this call.
  const { double, processor, event } = await setUpStripe(t, { timeoutMs: 3_600_000 });
  double.control.addFault({ kind: "hang", applied: true });
  const abort = new AbortController();
  const sending = processor.send(event(), abort.signal);
  await until(() => double.control.events().length > 0);

  abort.abort();

  t.like(await sending, unknown);
});

test("a call that is aborted before it starts is not made", async (t) => {
  const { double, processor, event } = await setUpStripe(t);
  const before = double.control.calls().length;

  t.like(await processor.send(event(), AbortSignal.abort()), known);
  t.is(double.control.calls().length, before);
});

test("of two concurrent calls for one customer and meter, the second is retried", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const [first, second, other] = [event(), event(), event({ kind: "bottle" })];
  double.control.addFault({ kind: "hold" });
  const held = processor.send(first, never);
  await until(() => double.control.held() > 0);

  const overlapping = await processor.send(second, never);
  const beside = await processor.send(other, never);
  double.control.release();

  t.like(overlapping, known);
  t.is(double.control.overlaps(), 1);
  t.is(beside.kind, "delivered");
  t.is((await held).kind, "delivered");
  t.is((await processor.send(second, never)).kind, "delivered");
  t.is(billed(), 9);
});

test("a base URL with a path is rejected", async (t) => {
  const double = await startStripeDouble(t);

  t.throws(() => createStripeProcessor({ apiBase: `${double.url}/v1`, secretKey: "sk_test_x" }), {
    message: /must not have a path/u,
  });
});
