import { inspect } from "node:util";
import test from "ava";
import type { ExecutionContext } from "ava";
import type { Stripe } from "stripe";
import { createStripeClient } from "../../../modules/billing/stripe/createStripeClient.ts";
import { createStripeProcessor } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { eventually } from "../../support/programs.ts";
import { known, never, setUpStripe } from "./stripeSetup.ts";

const start = async (t: ExecutionContext) => {
  const double = await startStripeDouble(t);
  return {
    double,
    stripe: createStripeClient(double.stripe).stripe,
    prepare: () => createStripeProcessor(double.stripe).prepare(),
  };
};

const creations = ({ control }: StripeDouble): number =>
  control.calls().filter(({ method, path }) => method === "POST" && path === "/v1/billing/meters")
    .length;

test("the meters are created as sums over plain events", async (t) => {
  const { stripe, prepare } = await start(t);

  await prepare();

  const { data } = await stripe.billing.meters.list();
  t.deepEqual(data.map(({ event_name: name }) => name).toSorted(), [
    "impact_plastic_bottle_rescued",
    "impact_tree_planted",
  ]);
  for (const meter of data) {
    t.like(meter, {
      default_aggregation: { formula: "sum" },
      event_time_window: null,
      customer_mapping: { type: "by_id", event_payload_key: "stripe_customer_id" },
      value_settings: { event_payload_key: "value" },
    });
  }
});

test("existing meters are used, even among many others", async (t) => {
  const { double, stripe, prepare } = await start(t);
  await prepare();
  for (let other = 0; other < 120; other += 1) {
    await stripe.billing.meters.create({
      display_name: "Other",
      event_name: `other_${other}`,
      default_aggregation: { formula: "sum" },
    });
  }
  const before = creations(double);

  await prepare();

  t.is(creations(double), before);
});

const ours: Stripe.Billing.MeterCreateParams = {
  display_name: "Trees",
  event_name: "impact_tree_planted",
  default_aggregation: { formula: "sum" },
};

for (const [difference, meter, message] of [
  ["that counts", { default_aggregation: { formula: "count" } }, /aggregates by count, not sum/u],
  ["that keeps one value an hour", { event_time_window: "hour" }, /event time window is "hour"/u],
  [
    "with another customer key",
    { customer_mapping: { type: "by_id", event_payload_key: "customer" } },
    /customer key is "customer", not "stripe_customer_id"/u,
  ],
  [
    "with another value key",
    { value_settings: { event_payload_key: "amount" } },
    /value key is "amount", not "value"/u,
  ],
] as const) {
  test(`an existing meter ${difference} is an error, and no second one is created`, async (t) => {
    const { stripe, prepare } = await start(t);
    await stripe.billing.meters.create({ ...ours, ...meter });
    await t.throwsAsync(prepare(), { message });
    const { data } = await stripe.billing.meters.list();
    t.is(data.filter(({ event_name: name }) => name === ours.event_name).length, 1);
  });
}

test("a deactivated meter is an error, unless there is an active one beside it", async (t) => {
  const { double, stripe, prepare } = await start(t);
  const { id } = await stripe.billing.meters.create(ours);
  double.control.setMeterStatus({ meterId: id, status: "inactive" });
  await t.throwsAsync(prepare(), { message: new RegExp(`${id}.*it is inactive`, "u") });

  await stripe.billing.meters.create(ours);
  await t.notThrowsAsync(prepare());
});

test("processes that start simultaneously create one meter of each kind, and all are ready", async (t) => {
  const { double, stripe, prepare } = await start(t);

  double.control.addFault({ kind: "hold", method: "GET", path: "/v1/billing/meters", times: 4 });

  const preparations = [prepare(), prepare(), prepare(), prepare()];
  await eventually(() => double.control.held() === 4);
  double.control.release();
  await Promise.all(preparations);

  t.is(creations(double), 8);
  t.is((await stripe.billing.meters.list()).data.length, 2);
});

test("no error or outcome contains a part of a rejected key", async (t) => {
  const { double, event } = await setUpStripe(t);
  const options = { apiBase: double.url, secretKey: "sk_live_1234abcd" };
  const processor = createStripeProcessor(options);
  const { stripe } = createStripeClient(options);

  for (const call of [
    () => processor.prepare(),
    () => processor.readSubscription("sub_1", never),
    () => processor.sumUsage("cus_1", "tree", { start: 0, end: 60 }, never),
    () => stripe.customers.create({}),
  ]) {
    const error = await t.throwsAsync(call(), { message: /Invalid API Key provided: \(key\)/u });
    // Everything that a log or a workflow's history could contain.
    t.notRegex(inspect(error, { depth: null, showHidden: true }), /sk_live|abcd/u);
  }
  const outcome = await processor.send(event(), never);
  t.is(outcome.kind, "misconfigured");
  t.notRegex(JSON.stringify(outcome), /sk_live|abcd/u);
});

test("an event waits until an operator reactivates its meter, and delays no usage of the other meter", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const { control } = double;
  const meterId = control.meterIds().tree;
  control.setMeterStatus({ meterId, status: "inactive" });
  const waiting = event();

  const refused = await processor.send(waiting, never);
  t.is((await processor.send(event({ kind: "bottle" }), never)).kind, "delivered");
  const before = control.sends();
  const checked = await processor.send({ ...waiting, keyGeneration: 1 }, never);

  t.like(refused, { newKey: true });
  t.regex(refused.kind === "misconfigured" ? refused.reason : "", /No active meter/u);
  t.regex(checked.kind === "misconfigured" ? checked.reason : "", /it is inactive/u);
  t.is(control.sends(), before);
  control.setMeterStatus({ meterId, status: "active" });
  t.is((await processor.send({ ...waiting, keyGeneration: 1 }, never)).kind, "delivered");
  t.is(billed(), 6);
});

test("while the meters cannot be checked, nothing is sent and no outcome is unknown", async (t) => {
  const { double, event } = await setUpStripe(t);
  // It has not checked the meters yet.
  const processor = createStripeProcessor(double.stripe);
  const check = { method: "GET", path: "/v1/billing/meters" } as const;
  double.control.addFault({ ...check, kind: "server_error" });
  double.control.addFault({ ...check, kind: "drop" });

  const failed = await processor.send(event(), never);
  t.like([failed, await processor.send(event(), never)], [known, known]);
  const reason = failed.kind === "retry" ? failed.reason : "";
  t.regex(reason, /meters could not be checked: .*status 500/u);
  t.is(double.control.sends(), 0);
  double.control.addFault({ ...check, kind: "server_error" });
  await t.throwsAsync(processor.prepare(), { message: /unknown error/u });
  t.is((await processor.send(event(), never)).kind, "delivered");
});
