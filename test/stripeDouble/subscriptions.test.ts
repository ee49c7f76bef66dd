import test from "ava";
import { stageDouble } from "./doubleScene.ts";

const DAY = 86_400;

test("an invoice bills what arrived within the grace period, and never less than 0", async (t) => {
  const { double, sendEvent } = await stageDouble(t);
  const start = 1_800_000_000;
  double.control.holdClock({ second: start });
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  const send = (second: number, value: string, event = "impact_tree_planted"): Promise<unknown> =>
    sendEvent({
      event_name: event,
      timestamp: String(second),
      "payload[value]": value,
      "payload[stripe_customer_id]": customerId,
    });
  await send(start + 5, "10");
  await send(start + 5, "-2", "impact_plastic_bottle_rescued");
  t.deepEqual(double.control.invoices({ subscriptionId }), []);
  double.control.advanceClock({ seconds: 31 * DAY + 1800 });
  await send(start + 5, "-4");
  const open = double.control.invoices({ subscriptionId });
  double.control.advanceClock({ seconds: 1801 });
  await send(start + 5, "-1");
  const closed = double.control.invoices({ subscriptionId });

  t.deepEqual(
    open.map(({ quantity, finalized }) => [quantity, finalized]),
    [
      [6, false],
      [0, false],
    ],
  );
  t.deepEqual(
    closed.map(({ quantity, finalized }) => [quantity, finalized]),
    [
      [6, true],
      [0, true],
    ],
  );
});

test("an update of a subscription adds all items or none", async (t) => {
  const { subscriptionId, call } = await stageDouble(t);
  const path = `/v1/subscriptions/${subscriptionId}`;
  const listed = async (): Promise<number> => {
    const { body } = await call("GET", "/v1/subscription_items", { subscription: subscriptionId });
    return Array.isArray(body["data"]) ? body["data"].length : -1;
  };
  const price = (
    await call("POST", "/v1/prices", {
      currency: "usd",
      "recurring[interval]": "month",
      "product_data[name]": "Flat",
    })
  ).body["id"];
  const flat = String(price);

  const half = await call("POST", path, {
    "items[0][price]": flat,
    "items[1][price]": "price_unknown",
  });
  t.is(half.status, 400);
  t.is(await listed(), 2);
  const whole = await call("POST", path, { "items[0][price]": flat, "items[0][quantity]": "1" });
  t.is(whole.status, 200);
  t.is(await listed(), 3);
  const again = await call("POST", path, { "items[0][price]": flat });
  t.regex(JSON.stringify(again.body), /Cannot add multiple subscription items with the same plan/u);
  t.is(await listed(), 3);
});

test("a metered item takes no quantity and a metered price needs a meter", async (t) => {
  const { double, subscriptionId, call } = await stageDouble(t);
  const metered = {
    currency: "usd",
    "recurring[interval]": "month",
    "recurring[usage_type]": "metered",
    "product_data[name]": "Metered",
  };
  const withoutMeter = await call("POST", "/v1/prices", metered);
  const { body } = await call("POST", "/v1/prices", {
    ...metered,
    "recurring[meter]": double.control.meterIds().tree,
  });

  const withQuantity = await call("POST", "/v1/subscription_items", {
    subscription: subscriptionId,
    price: String(body["id"]),
    quantity: "1",
  });

  t.is(withoutMeter.status, 400);
  t.is(withQuantity.status, 400);
  t.regex(JSON.stringify(withQuantity.body), /takes no quantity/u);
});

test("a declined payment is a 402 that changes nothing", async (t) => {
  const { double, customerId, subscriptionId, call } = await stageDouble(t);
  const { body } = await call("POST", "/v1/prices", {
    currency: "usd",
    "recurring[interval]": "month",
    "product_data[name]": "Flat",
  });
  double.control.declinePayments({ customerId });

  const declined = await call("POST", `/v1/subscriptions/${subscriptionId}`, {
    "items[0][price]": String(body["id"]),
    payment_behavior: "error_if_incomplete",
  });

  t.is(declined.status, 402);
  t.like(declined.body, { error: { type: "card_error", code: "card_declined" } });
  const after = await call("GET", `/v1/subscriptions/${subscriptionId}`);
  t.is(JSON.stringify(after.body).match(/"si_\w+"/gu)?.length, 2);
});

test("a canceled subscription can be read but not changed", async (t) => {
  const { subscriptionId, call } = await stageDouble(t);
  const path = `/v1/subscriptions/${subscriptionId}`;
  await call("DELETE", path);

  t.like((await call("GET", path)).body, { status: "canceled" });
  t.is((await call("POST", path, { "metadata[a]": "b" })).status, 404);
});
