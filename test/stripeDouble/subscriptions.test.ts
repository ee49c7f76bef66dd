import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { stageDouble } from "./doubleScene.ts";

const DAY = 86_400;
const START = Date.UTC(2026, 4, 1) / 1000;
const MONTH = 31 * DAY;

const invoiceList = z.object({
  data: z.array(
    z.looseObject({
      id: z.string(),
      status: z.string(),
      lines: z.object({ data: z.array(z.object({ quantity: z.int() })) }),
    }),
  ),
});

/** A subscriber of the double at a fixed time. */
const stage = async (t: ExecutionContext) => {
  const scene = await stageDouble(t);
  const { call, control } = scene;
  control.holdClock({ second: START });
  const subscriber = control.addSubscriber({});
  const path = `/v1/subscriptions/${subscriber.subscriptionId}`;
  const listInvoices = async (customer: string) =>
    invoiceList.parse((await call("GET", "/v1/invoices", { customer, limit: "100" })).body).data;
  return {
    ...scene,
    ...subscriber,
    path,
    listInvoices,
    pass: (seconds: number) => control.advanceClock({ seconds }),
    use: async (units: number, customer = subscriber.customerId) => {
      const { status } = await scene.sendEvent({
        timestamp: String(control.now()),
        "payload[value]": String(units),
        "payload[stripe_customer_id]": customer,
      });
      t.is(status, 200);
    },
    /** The units of trees on the invoices after the first one, which has none, with their statuses. */
    trees: async (customer = subscriber.customerId) =>
      (await listInvoices(customer))
        .toReversed()
        .slice(1)
        .map(({ status, lines }) => [lines.data[0]?.quantity, status]),
    statusOf: async () => (await call("GET", path)).body["status"],
    createPrice: async (parameters: Readonly<Record<string, string>> = {}) =>
      call("POST", "/v1/prices", {
        currency: "usd",
        "recurring[interval]": "month",
        ...parameters,
      }),
  };
};

for (const [behavior, status] of [
  ["void", "void"],
  ["mark_uncollectible", "uncollectible"],
  ["keep_as_draft", "draft"],
] as const) {
  test(`an invoice of a subscription that is paused by ${behavior} ends as ${status}`, async (t) => {
    const { use, pass, trees, control, subscriptionId, call, path } = await stage(t);
    await use(3);
    control.pauseCollection({ subscriptionId, behavior });
    t.like((await call("GET", path)).body, { status: "active", pause_collection: { behavior } });
    pass(MONTH);
    control.pauseCollection({ subscriptionId });
    await use(4);
    pass(MONTH + DAY);
    t.deepEqual(await trees(), [
      [3, status],
      [4, "paid"],
    ]);
  });
}

test("an invoice bills what arrived within the grace period, and never less than 0", async (t) => {
  const { use, pass, trees, sendEvent, customerId } = await stage(t);
  await use(10);
  const late = (value: string) =>
    sendEvent({
      timestamp: String(START + 5),
      "payload[value]": value,
      "payload[stripe_customer_id]": customerId,
    });
  pass(MONTH + 1800);
  await late("-4");
  t.deepEqual(await trees(), [[6, "draft"]]);
  pass(1801);
  await late("-1");
  t.deepEqual(await trees(), [[6, "paid"]]);
  await use(-2);
  pass(MONTH);
  t.deepEqual((await trees()).at(-1), [0, "paid"]);
});

test("a trial of a running subscription invoices what was used before it, and is free", async (t) => {
  const { use, pass, trees, control, subscriptionId, statusOf } = await stage(t);
  await use(1);
  pass(DAY);
  control.beginTrial({ subscriptionId, trialEnd: control.now() + 10 * DAY });
  t.is(await statusOf(), "trialing");
  await use(2);
  pass(10 * DAY);
  t.is(await statusOf(), "active");
  await use(4);
  pass(MONTH);
  t.deepEqual(await trees(), [
    [1, "paid"],
    [0, "paid"],
    [4, "draft"],
  ]);
});

test("only a cancellation with an invoice, or at the end of a period, invoices the last usage", async (t) => {
  const { use, pass, trees, control, call, path, customerId, subscriptionId } = await stage(t);
  const [dropped, invoiced] = [control.addSubscriber({}), control.addSubscriber({})];
  for (const customer of [customerId, dropped.customerId, invoiced.customerId]) {
    await use(2, customer);
  }
  control.cancel({ subscriptionId, when: "at_period_end" });
  pass(DAY);
  const ended = await call("DELETE", `/v1/subscriptions/${dropped.subscriptionId}`);
  t.like(ended.body, { status: "canceled", ended_at: START + DAY });
  control.cancel({ subscriptionId: invoiced.subscriptionId, when: "now_with_invoice" });
  t.like((await call("GET", path)).body, { status: "active", ended_at: null });
  pass(2 * MONTH);
  t.deepEqual(await trees(dropped.customerId), []);
  t.deepEqual(await trees(invoiced.customerId), [[2, "paid"]]);
  t.deepEqual(await trees(), [[2, "paid"]]);
  t.like((await call("GET", path)).body, { status: "canceled", ended_at: START + MONTH });
});

test("subscriptions and invoices are listed by customer, with lines as Stripe has them", async (t) => {
  const { use, pass, control, call, customerId, subscriptionId, listInvoices } = await stage(t);
  const second = control.addSubscriber({ customerId });
  t.is(second.customerId, customerId);
  await use(9);
  pass(DAY);
  control.cancel({ subscriptionId: second.subscriptionId, when: "now_without_invoice" });
  pass(MONTH);
  const listed = async (parameters: Readonly<Record<string, string>>) =>
    (await call("GET", "/v1/subscriptions", { customer: customerId, ...parameters })).body;
  t.like(await listed({}), { data: [{ id: subscriptionId }], has_more: false });
  t.like(await listed({ status: "all" }), {
    data: [{ id: second.subscriptionId }, { id: subscriptionId }],
  });
  const since = { customer: customerId, "created[gte]": String(START + DAY) };
  const [invoice] = invoiceList.parse((await call("GET", "/v1/invoices", since)).body).data;
  t.deepEqual(await listInvoices(customerId).then(([newest]) => newest), invoice);
  t.like(invoice, {
    object: "invoice",
    parent: { subscription_details: { subscription: subscriptionId } },
    status_transitions: { voided_at: null },
  });
  t.regex(String(invoice?.["number"]), /^DOUBLE-/u);
  const page = await call("GET", `/v1/invoices/${invoice?.id}/lines`, { limit: "1" });
  t.like(page.body, {
    has_more: true,
    data: [{ object: "line_item", quantity: 9, period: { start: START, end: START + MONTH } }],
  });
});

test("an update of a subscription adds all items or none", async (t) => {
  const { subscriptionId, call, path, createPrice } = await stage(t);
  const listed = async () =>
    (await call("GET", "/v1/subscription_items", { subscription: subscriptionId })).body["data"];
  const flat = String((await createPrice()).body["id"]);
  const unknown = { "items[0][price]": flat, "items[1][price]": "price_unknown" };
  t.is((await call("POST", path, unknown)).status, 400);
  t.like(await listed(), { length: 2 });
  const whole = await call("POST", path, { "items[0][price]": flat, "items[0][quantity]": "1" });
  t.is(whole.status, 200);
  t.like(await listed(), { length: 3 });
  const again = await call("POST", path, { "items[0][price]": flat });
  t.regex(JSON.stringify(again.body), /Cannot add multiple subscription items with the same plan/u);
  t.like(await listed(), { length: 3 });
});

test("a declined payment is a 402 that changes nothing", async (t) => {
  const { control, customerId, call, path, createPrice } = await stage(t);
  const price = String((await createPrice()).body["id"]);
  control.declinePayments({ customerId });
  const declined = await call("POST", path, {
    "items[0][price]": price,
    payment_behavior: "error_if_incomplete",
  });
  t.is(declined.status, 402);
  t.like(declined.body, { error: { type: "card_error", code: "card_declined" } });
  t.is(JSON.stringify((await call("GET", path)).body).match(/"si_\w+"/gu)?.length, 2);
});

test("what Stripe refuses is refused", async (t) => {
  const { call, path, control, subscriptionId, createPrice } = await stage(t);
  const metered = { "recurring[usage_type]": "metered" };
  const meter = { "recurring[meter]": control.meterIds().tree };
  t.is((await createPrice(metered)).status, 400);
  t.is((await createPrice(meter)).status, 400);
  const price = String((await createPrice({ ...metered, ...meter })).body["id"]);
  const refused: readonly (readonly [
    "GET" | "POST",
    string,
    Readonly<Record<string, string>>,
    number,
  ])[] = [
    ["POST", "/v1/subscription_items", { subscription: subscriptionId, price, quantity: "1" }, 400],
    ["POST", path, { "items[0]": price }, 400],
    ["POST", path, { status: "paused" }, 400],
    ["GET", "/v1/subscriptions", { customer: "cus_none" }, 400],
    ["GET", "/v1/invoices", { customer: "cus_none" }, 400],
    ["GET", "/v1/invoices/in_none/lines", {}, 404],
  ];
  for (const [method, target, parameters, status] of refused) {
    t.is((await call(method, target, parameters)).status, status, JSON.stringify(parameters));
  }
  await call("DELETE", path);
  t.like((await call("GET", path)).body, { status: "canceled" });
  t.is((await call("POST", path, { "items[0][price]": price })).status, 404);
  t.is((await call("DELETE", path)).status, 404);
});
