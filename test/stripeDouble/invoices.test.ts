import test from "ava";
import type { ExecutionContext } from "ava";
import type { Control } from "./createControl.ts";
import { stageDouble } from "./doubleScene.ts";

const DAY = 86_400;
const START = Date.UTC(2026, 4, 1) / 1000;
const MONTH = 31 * DAY;

/** A subscriber of the double at a fixed time, who uses units by `use`. */
const stage = async (t: ExecutionContext) => {
  const scene = await stageDouble(t);
  const { control } = scene.double;
  control.holdClock({ second: START });
  const { customerId, subscriptionId } = control.addSubscriber({});
  const ids = { customerId, subscriptionId };
  return {
    ...scene,
    ...ids,
    control,
    path: `/v1/subscriptions/${subscriptionId}`,
    pass: (seconds: number) => control.advanceClock({ seconds }),
    use: async (units: number, customer = customerId) => {
      const { status } = await scene.sendEvent({
        timestamp: String(control.now()),
        "payload[value]": String(units),
        "payload[stripe_customer_id]": customer,
      });
      t.is(status, 200);
    },
    /** The lines of trees, with the status of their invoice. */
    trees: (id = subscriptionId) =>
      control
        .invoices({ subscriptionId: id })
        .filter(({ meter }) => meter === control.meterIds().tree)
        .map(({ quantity, status }) => [quantity, status] as const),
    statusOf: async () =>
      (await scene.call("GET", `/v1/subscriptions/${subscriptionId}`)).body["status"],
  };
};

const PAUSES: readonly [
  NonNullable<Parameters<Control["pauseCollection"]>[0]["behavior"]>,
  string,
][] = [
  ["void", "void"],
  ["mark_uncollectible", "uncollectible"],
  ["keep_as_draft", "draft"],
];

for (const [behavior, status] of PAUSES) {
  test(`an invoice of a subscription that is paused by ${behavior} ends as ${status}`, async (t) => {
    const { use, pass, trees, call, path } = await stage(t);
    await use(3);
    const paused = await call("POST", path, { "pause_collection[behavior]": behavior });
    t.like(paused.body["pause_collection"], { behavior });
    t.is(paused.body["status"], "active");
    pass(MONTH);
    t.is((await call("POST", path, { pause_collection: "" })).body["pause_collection"], null);
    await use(4);
    pass(MONTH + DAY);

    t.deepEqual(trees(), [
      [3, status],
      [4, "paid"],
    ]);
  });
}

test("a pause ends by itself, and a draft that it left is finalized by hand", async (t) => {
  const { use, pass, trees, control, subscriptionId } = await stage(t);
  const resumesAt = control.now() + MONTH + DAY;
  control.pauseCollection({ subscriptionId, behavior: "keep_as_draft", resumesAt });
  await use(1);
  pass(2 * MONTH + DAY);
  t.deepEqual(trees(), [
    [1, "draft"],
    [0, "paid"],
  ]);
  const draft = control.invoices({ subscriptionId }).find(({ status }) => status === "draft");
  control.finalizeInvoice({ invoiceId: draft?.invoice ?? "" });
  t.deepEqual(trees()[0], [1, "paid"]);
});

test("a trial of a running subscription invoices what was used before it, and is free", async (t) => {
  const { use, pass, trees, control, subscriptionId, statusOf } = await stage(t);
  await use(1);
  pass(DAY);
  control.changeTrial({ subscriptionId, trialEnd: control.now() + 10 * DAY });
  t.is(await statusOf(), "trialing");
  await use(2);
  pass(10 * DAY);
  t.is(await statusOf(), "active");
  await use(4);
  pass(MONTH);

  t.deepEqual(trees(), [
    [1, "paid"],
    [0, "paid"],
    [4, "draft"],
  ]);
});

test("a subscription that begins with a trial has one period until the trial ends", async (t) => {
  const { pass, control, call, use, trees } = await stage(t);
  const trialEnd = control.now() + 5 * DAY;
  const { customerId, subscriptionId } = control.addSubscriber({ trialEnd });
  await use(7, customerId);
  const { body } = await call("GET", "/v1/subscription_items", { subscription: subscriptionId });
  t.like(body, { data: [{ current_period_end: trialEnd }, { current_period_end: trialEnd }] });
  pass(DAY);
  control.changeTrial({ subscriptionId, trialEnd: "now" });
  await use(5, customerId);
  pass(MONTH + DAY);
  t.deepEqual(trees(subscriptionId), [
    [0, "paid"],
    [5, "paid"],
  ]);
});

test("only a cancellation with an invoice, or at the end of a period, invoices the last usage", async (t) => {
  const { use, pass, trees, control, call, path, subscriptionId } = await stage(t);
  const [dropped, invoiced] = [control.addSubscriber({}), control.addSubscriber({})];
  for (const { customerId } of [dropped, invoiced]) {
    await use(2, customerId);
  }
  await use(2);
  t.like((await call("POST", path, { cancel_at_period_end: "true" })).body, {
    status: "active",
    cancel_at_period_end: true,
  });
  pass(DAY);
  const ended = await call("DELETE", `/v1/subscriptions/${dropped.subscriptionId}`);
  t.like(ended.body, { status: "canceled", ended_at: control.now() });
  await call(
    "DELETE",
    `/v1/subscriptions/${invoiced.subscriptionId}?invoice_now=true&prorate=true`,
  );
  pass(MONTH);

  t.deepEqual(trees(dropped.subscriptionId), []);
  t.deepEqual(trees(invoiced.subscriptionId), [[2, "paid"]]);
  t.deepEqual(trees(), [[2, "paid"]]);
  t.like((await call("GET", path)).body, { status: "canceled", ended_at: START + MONTH });
  control.advanceClock({ seconds: 3 * MONTH });
  t.is(control.invoices({ subscriptionId }).length, 2);
});

test("a schedule removes a price, whose usage is invoiced, and ends the subscription", async (t) => {
  const { use, pass, trees, control, call, path, subscriptionId } = await stage(t);
  const { body } = await call("GET", "/v1/subscription_items", { subscription: subscriptionId });
  const prices = JSON.stringify(body).match(/price_[0-9a-f]+/gu) ?? [];
  control.schedule({ subscriptionId, at: START + DAY, removePrices: [prices[0] ?? ""] });
  control.schedule({ subscriptionId, at: START + MONTH, cancel: true });
  await use(6);
  pass(2 * DAY);
  t.deepEqual(trees(), [[6, "paid"]]);
  t.is(JSON.stringify((await call("GET", path)).body).match(/"si_/gu)?.length, 1);
  pass(MONTH);
  t.like((await call("GET", path)).body, { status: "canceled", ended_at: START + MONTH });
});

test("subscriptions and invoices are listed by customer and status, with lines as Stripe has them", async (t) => {
  const { use, pass, control, call, customerId, subscriptionId } = await stage(t);
  const second = control.addSubscriber({ customerId });
  t.is(second.customerId, customerId);
  await use(9);
  pass(DAY);
  control.cancel({ subscriptionId: second.subscriptionId, when: "now_without_invoice" });
  pass(MONTH);
  const listed = async (path: string, parameters: Record<string, string>) => {
    const { body } = await call("GET", path, { customer: customerId, ...parameters });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every list has objects
    return body["data"] as { id: string; number: string | null }[];
  };
  const idsOf = async (parameters: Record<string, string>) =>
    (await listed("/v1/subscriptions", parameters)).map(({ id }) => id);
  t.deepEqual(await idsOf({}), [subscriptionId]);
  t.deepEqual(await idsOf({ status: "all" }), [second.subscriptionId, subscriptionId]);
  t.deepEqual(await idsOf({ status: "canceled" }), [second.subscriptionId]);
  const [invoice] = await listed("/v1/invoices", { status: "paid" });
  t.like(invoice, {
    object: "invoice",
    parent: { subscription_details: { subscription: subscriptionId } },
    status_transitions: { voided_at: null },
  });
  t.regex(invoice?.number ?? "", /^DOUBLE-/u);
  t.is((await listed("/v1/invoices", { "created[gte]": String(START + DAY) })).length, 1);
  const path = `/v1/invoices/${invoice?.id}/lines`;
  const page = (await call("GET", path, { limit: "1" })).body;
  t.like(page, {
    has_more: true,
    data: [
      {
        object: "line_item",
        quantity: 9,
        amount: 9 * 45,
        period: { start: START, end: START + MONTH },
        parent: { subscription_item_details: { subscription: subscriptionId } },
        pricing: { type: "price_details" },
      },
    ],
  });
});

test("what Stripe refuses is refused", async (t) => {
  const { call, path, control, subscriptionId, pass } = await stage(t);
  const past = String(START - DAY);
  const refused: readonly (readonly [
    "GET" | "POST" | "DELETE",
    string,
    Record<string, string>,
    number,
  ])[] = [
    ["POST", path, { "pause_collection[behavior]": "stop" }, 400],
    [
      "POST",
      path,
      { "pause_collection[behavior]": "void", "pause_collection[resumes_at]": past },
      400,
    ],
    ["POST", path, { trial_end: past }, 400],
    ["GET", "/v1/subscriptions", { status: "done" }, 400],
    ["GET", "/v1/subscriptions", { customer: "cus_none" }, 400],
    ["GET", "/v1/invoices", { status: "finalized" }, 400],
    ["GET", "/v1/invoices", { subscription: "sub_none" }, 400],
    ["GET", "/v1/invoices/in_none", {}, 404],
    ["GET", "/v1/invoices/in_none/lines", {}, 404],
    ["DELETE", `${path}?invoice=true`, {}, 400],
  ];
  for (const [method, target, parameters, status] of refused) {
    t.is((await call(method, target, parameters)).status, status, target);
  }
  pass(MONTH + DAY);
  const [line] = control.invoices({ subscriptionId });
  t.is((await call("POST", `/v1/invoices/${line?.invoice}/finalize`)).status, 400);
  t.is((await call("POST", `/v1/invoices/${line?.invoice}/void`)).status, 400);
  control.cancel({ subscriptionId, when: "now_without_invoice" });
  t.is((await call("POST", path, { "pause_collection[behavior]": "void" })).status, 404);
  t.is((await call("DELETE", path)).status, 404);
});
