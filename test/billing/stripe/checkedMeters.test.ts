import test from "ava";
import type { ExecutionContext } from "ava";
import { createStripeClient } from "../../../providers/billing/stripe/createStripeClient.ts";
import { createStripeProcessor } from "../../../providers/billing/stripe/createStripeProcessor.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { never, setUpStripe } from "./stripeSetup.ts";

const known = { kind: "retry", outcomeUnknown: false } as const;

/** Returns the number of calls that sent usage. */
const sends = ({ control }: StripeDouble): number =>
  control.calls().filter(({ path }) => path === "/v1/billing/meter_events").length;

test("an event waits until an operator reactivates its meter", async (t) => {
  const { double, processor, event, billed } = await setUpStripe(t);
  const { stripe } = createStripeClient({ apiBase: double.url, secretKey: double.secretKey });
  const { data: meters } = await stripe.billing.meters.list();
  for (const { id } of meters) {
    await stripe.billing.meters.deactivate(id);
  }

  const refused = await processor.send(event(), never);
  const before = sends(double);
  const checked = await processor.send(event(), never);

  t.regex(refused.kind === "misconfigured" ? refused.reason : "", /No active meter/u);
  t.regex(checked.kind === "misconfigured" ? checked.reason : "", /it is inactive/u);
  t.is(sends(double), before);
  for (const { id } of meters) {
    await stripe.billing.meters.reactivate(id);
  }
  t.is((await processor.send(event(), never)).kind, "delivered");
  t.is(billed(), 3);
});

test("a deactivated meter does not delay the usage of the other meter", async (t) => {
  const { double, processor, event } = await setUpStripe(t);
  const { stripe } = createStripeClient({ apiBase: double.url, secretKey: double.secretKey });
  await stripe.billing.meters.deactivate(double.control.meterIds().tree);

  t.is((await processor.send(event(), never)).kind, "misconfigured");
  t.is((await processor.send(event(), never)).kind, "misconfigured");
  t.is((await processor.send(event({ meter: "bottle" }), never)).kind, "delivered");
});

const CHECK = { method: "GET", path: "/v1/billing/meters" } as const;

/** Sets up a processor that has not checked the meters yet. */
const setUpUnchecked = async (t: ExecutionContext) => {
  const { double, event } = await setUpStripe(t);
  const options = { apiBase: double.url, secretKey: double.secretKey };
  return { double, event, processor: createStripeProcessor(options) };
};

test("while the meters cannot be checked, nothing is sent and no outcome is unknown", async (t) => {
  const { double, processor, event } = await setUpUnchecked(t);
  double.control.addFault({ ...CHECK, kind: "server_error" });
  double.control.addFault({ ...CHECK, kind: "drop" });

  const failed = await processor.send(event(), never);
  const lost = await processor.send(event(), never);

  t.like(failed, known);
  t.like(lost, known);
  t.regex(
    failed.kind === "retry" ? failed.reason : "",
    /meters could not be checked: .*status 500/u,
  );
  t.is(sends(double), 0);
  t.is((await processor.send(event(), never)).kind, "delivered");
});

test("an event is retried later if checking the meters takes too long", async (t) => {
  const { double, processor, event } = await setUpUnchecked(t);
  double.control.addFault({ ...CHECK, kind: "slow", delayMs: 4200 });

  t.like(await processor.send(event(), never), known);
  t.is(sends(double), 0);
  t.is((await processor.send(event(), never)).kind, "delivered");
});

test("nothing is sent to a meter that keeps only the last value", async (t) => {
  const double = await startStripeDouble();
  t.teardown(double.close);
  const options = { apiBase: double.url, secretKey: double.secretKey };
  await createStripeClient(options).stripe.billing.meters.create({
    display_name: "Trees",
    event_name: "impact_tree_planted",
    default_aggregation: { formula: "last" },
  });
  const { customerId } = double.control.addCustomer({});

  const outcome = await createStripeProcessor(options).send(
    {
      identifier: "u1:account:tree:1",
      customer: { accountId: "account", customerId, subscriptionId: null },
      meter: "tree",
      quantity: 3,
      second: double.control.now(),
      keyGeneration: 0,
    },
    never,
  );

  t.regex(outcome.kind === "misconfigured" ? outcome.reason : "", /aggregates by last, not sum/u);
  t.is(sends(double), 0);
});

test("concurrent events share one check of the meters, which later events use too", async (t) => {
  const { double, processor, event } = await setUpUnchecked(t);
  const checks = (): number =>
    double.control.calls().filter(({ method, path }) => method === "GET" && path === CHECK.path)
      .length;
  const before = checks();

  await Promise.all([
    processor.send(event(), never),
    processor.send(event({ meter: "bottle" }), never),
  ]);
  await processor.send(event(), never);

  t.is(checks(), before + 1);
  t.is(sends(double), 3);
});
