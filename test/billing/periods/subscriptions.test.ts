import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { z } from "zod";
import { listWatchedSubscriptions } from "../../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import type { SubscriptionPolicy } from "../../../modules/accounts/accounts.rules.ts";
import { guardUsage, holdUsage, resumeUsage } from "../../../modules/billing/holdUsage.ts";
import { createWorkerMetrics } from "../../../worker/createWorkerMetrics.ts";
import { requestSubscriptionReads } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { listBillingPeriods } from "../../../modules/billing/billingPeriods.sql.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { impactOf, readJson } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import type { StripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { Mode } from "../../../modules/records/owner.rules.ts";
import { startBilledApi } from "../billedApi.ts";
import { createBilledOrganization, setUpBilling } from "../billingSetup.ts";

// Serial, because a sweep reads every subscription of the file's database.
const test = testWithDatabase().serial;

const DAY = 86_400;

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const { db } = t.context;
  for (const { accountId } of await listWatchedSubscriptions(db, null)) {
    await updateAccount(db, accountId, { stripeSubscriptionId: null });
  }
  const setup = await setUpBilling(t);
  const { deps, double, stream, subscriptionId } = setup;
  const { accountId } = stream;
  const { post, process } = await startBilledApi(t, setup);
  /** Has all subscriptions read, as each night. */
  const sweep = async (): Promise<void> => {
    setup.pass(1);
    await requestSubscriptionReads(db, deps.clock.now());
    await process();
  };
  return {
    ...setup,
    setPolicy: (subscriptionPolicy: SubscriptionPolicy) =>
      updateAccount(db, accountId, { subscriptionPolicy }),
    process,
    sweep,
    /** Changes the status of the subscription, and has it read. */
    setStatus: (status: "active" | "past_due" | "unpaid"): Promise<void> => {
      double.control.changeSubscription({ subscriptionId, status });
      return sweep();
    },
    /** Returns the values of a worker's metric that are not 0. */
    metric: async (name: string): Promise<readonly string[]> => {
      const metrics = createWorkerMetrics({ ...deps, logger: pino({ level: "silent" }) });
      const lines = (await metrics.read()).split("\n");
      return lines.filter((line) => line.startsWith(`${name}{`) && !line.endsWith(" 0")).toSorted();
    },
    watched: async () => (await listWatchedSubscriptions(db, accountId))[0] ?? null,
    plant: (mode: Mode = "live", fields: object = {}) =>
      post("/plant/trees", { count: 1, ...fields }, mode),
    rescue: () => post("/rescue/plastic_bottles", { count: 1 }),
    impact: impactOf(t, { clock: deps.clock }),
    succeedWithKey: impactOf(t, { env: double.env, clock: deps.clock }).ok,
  };
};

/** Removes the price that a subscription has on the meter of trees. */
const removeTrees = ({ control }: StripeDouble, subscriptionId: string): void => {
  const removePrices = control.pricesOf({ subscriptionId }).slice(0, 1);
  control.changeSubscription({ subscriptionId, removePrices });
};

test("the sweep stores the status, the priced meters and the periods, and keeps past periods", async (t) => {
  const { sweep, watched, pass, deps, stream, setStatus } = await setUp(t);
  await sweep();
  t.like(await watched(), { status: "active", meteredKinds: ["tree", "bottle"] });
  pass(32 * DAY);
  await setStatus("past_due");
  t.like(await watched(), { status: "past_due" });
  const periods = await listBillingPeriods(deps.db, stream.accountId);
  t.is(periods.filter(({ kind }) => kind === "tree").length, 2);
});

test("a subscription that cannot be read is read later, and stops no other", async (t) => {
  const { sweep, process, watched, pass, double, deps } = await setUp(t);
  const subscriber = double.control.addSubscriber({});
  const { stream: other } = await createBilledOrganization(deps, double.control, subscriber);
  const isOtherRead = async (): Promise<boolean> =>
    (await listWatchedSubscriptions(deps.db, other.accountId)).length > 0;
  const path = `/v1/subscriptions/${subscriber.subscriptionId}`;
  double.control.addFault({ kind: "server_error", method: "GET", path });
  await sweep();
  t.like(await watched(), { status: "active" });
  t.false(await isOtherRead());
  pass(60);
  await process();
  t.true(await isOtherRead());
});

test("subscriptions are read when Stripe is recorded as the processor, and when a hold ends", async (t) => {
  const { process, watched, double, subscriptionId, forgetProcessor, deps, pass } = await setUp(t);
  await guardUsage(deps);
  await forgetProcessor();
  await double.openBilling(deps.db);
  // It is recorded at the machine's time.
  const second = Math.max(double.control.now(), Math.ceil(Date.now() / 1000));
  double.control.holdClock({ second });
  await process();
  t.like(await watched(), { status: "active" });
  double.control.changeSubscription({ subscriptionId, status: "past_due" });
  await holdUsage(deps, { reason: "a test", by: "ada" });
  pass(60);
  await resumeUsage(deps);
  await process();
  t.like(await watched(), { status: "past_due" });
});

test("the status of a subscription is read although items of one meter have different periods", async (t) => {
  const { sweep, watched, deps, double, stream, subscriptionId, pass } = await setUp(t);
  const price = double.control.addPrice({ kind: "tree", interval: "year" });
  double.control.addItem({ subscriptionId, price });
  await sweep();
  t.like(await watched(), { status: "active", meteredKinds: ["tree", "bottle"] });
  const periods = await listBillingPeriods(deps.db, stream.accountId);
  t.deepEqual([periods.length, periods[0]?.kind], [1, "bottle"]);
  pass(1);
  double.control.cancel({ subscriptionId, when: "now_without_invoice" });
  await sweep();
  t.like(await watched(), { status: "canceled" });
});

test("webhooks of the subscription and a deleted customer refresh the state", async (t) => {
  const { process, watched, double, subscriptionId, customerId } = await setUp(t);
  const { control } = double;
  control.changeSubscription({ subscriptionId, status: "past_due" });
  const updated = { type: "customer.subscription.updated", objectId: subscriptionId };
  t.is(await control.announce(updated), 200);
  t.is(await watched(), null);
  await process();
  t.like(await watched(), { status: "past_due" });
  control.deleteCustomer({ customerId });
  t.is(await control.announce({ type: "customer.deleted", objectId: customerId }), 200);
  await process();
  t.like(await watched(), { status: "canceled" });
});

test("with the policy suspend, new live registrations are rejected while the subscription is not active", async (t) => {
  const { setPolicy, plant, setStatus, recorded } = await setUp(t);
  await setStatus("past_due");
  const request = { idempotency_key: "order-1" };
  const first = await plant("live", request);
  t.is(first.status, 200);
  await setPolicy("suspend");
  t.like(await plant("live", request), { status: 200, body: first.body, replayed: "true" });
  t.is((await plant("live", { idempotency_key: "order-2" })).status, 403);
  const error = "registrations are suspended because the organization's subscription is past_due";
  const { status, body } = await plant();
  t.deepEqual({ status, body }, { status: 403, body: { error } });
  t.is((await plant("test")).status, 200);
  t.deepEqual(Object.values(await recorded()), [1]);
  await setStatus("active");
  t.is((await plant()).status, 200);
});

test("org list, org show, doctor and metrics report subscriptions that need attention", async (t) => {
  const { impact, stream, setStatus, metric, deps, double } = await setUp(t);
  const { accountId: id } = stream;
  for (let other = 0; other < 2; other += 1) {
    await createBilledOrganization(deps, double.control);
  }
  await setStatus("unpaid");
  const subscription = { status: "unpaid", metered_kinds: ["tree", "bottle"] };
  t.like(await impact.json("org", "show", id), { subscription_policy: "alert", subscription });
  t.regex((await impact("org", "list")).stdout, /unpaid +alert/u);
  t.regex((await impact("doctor")).stdout, /its subscription is unpaid\./u);
  await impact.ok("org", "update", id, "--subscription-policy", "keep");
  t.deepEqual(await metric("impact_subscriptions"), [
    'impact_subscriptions{status="active",policy="alert"} 2',
    'impact_subscriptions{status="unpaid",policy="keep"} 1',
  ]);
  t.deepEqual(await metric("impact_subscription_problems"), [
    'impact_subscription_problems{problem="inactive",policy="keep"} 1',
  ]);
  await impact.fails(2, "org", "update", id, "--subscription-policy", "maybe");
});

test("with the policy suspend, a removed price suspends the registrations of its meter", async (t) => {
  const { setPolicy, sweep, plant, rescue, double, subscriptionId } = await setUp(t);
  await setPolicy("suspend");
  removeTrees(double, subscriptionId);
  await sweep();
  const error =
    "registrations of trees are suspended because the organization's subscription has no price on the meter of trees";
  const { status, body } = await plant();
  t.deepEqual({ status, body }, { status: 403, body: { error } });
  t.is((await rescue()).status, 200);
  t.is((await plant("test")).status, 200);
  await setPolicy("alert");
  t.is((await plant()).status, 200);
});

test("a removed price is a problem of organizations that use the meter, and only of them", async (t) => {
  const { impact, sweep, pass, double, subscriptionId, stream, plant, deps, ...setup } =
    await setUp(t);
  const shown = z.looseObject({ subscription: z.looseObject({ problems: z.unknown() }) });
  const problemsOf = async () =>
    shown.parse(await impact.json("org", "show", stream.accountId)).subscription.problems;
  removeTrees(double, subscriptionId);
  await sweep();
  t.deepEqual(await problemsOf(), []);
  setup.reportElsewhere(3);
  pass(3600);
  const { drifting } = await reconcileUsage(deps, {}, new AbortController().signal);
  t.is(drifting.length, 1, "another program has reported units of the meter");
  t.deepEqual(await problemsOf(), []);
  t.deepEqual(await setup.metric("impact_subscription_problems"), []);
  t.is((await plant()).status, 200);
  t.deepEqual(await problemsOf(), ["has no price on the meter of trees"]);
  t.deepEqual(await setup.metric("impact_subscription_problems"), [
    'impact_subscription_problems{problem="unpriced_meter",policy="alert"} 1',
  ]);
  t.regex((await impact("org", "list")).stdout, /has no price on the meter of trees/u);
  const { stdout } = await impact("doctor");
  t.regex(stdout, /its subscription has no price on the meter of trees\./u);
});

test("org create and org update read the subscription, and an outage of Stripe is only a warning", async (t) => {
  const { succeedWithKey, watched, double, subscriptionId, stream, deps } = await setUp(t);
  const { accountId: id } = stream;
  t.is(await watched(), null);
  await succeedWithKey("org", "update", id, "--subscription-policy", "suspend");
  t.like(await watched(), { status: "active", meteredKinds: ["tree", "bottle"] });

  const other = double.control.addSubscriber({});
  const settings = `--stripe-customer ${other.customerId} --stripe-subscription ${other.subscriptionId}`;
  const create = `org create --name New --json ${settings}`;
  const created = await succeedWithKey(...create.split(" "));
  const { id: newId } = z.looseObject({ id: z.string() }).parse(readJson(created));
  t.like((await listWatchedSubscriptions(deps.db, newId))[0], { status: "active" });

  const path = `/v1/subscriptions/${subscriptionId}`;
  double.control.addFault({ kind: "server_error", method: "GET", path, times: 100 });
  const during = await succeedWithKey("org", "update", id, "--subscription-policy", "keep");
  t.regex(during.stderr, /^Warning: Stripe could not check the customer and the subscription/mu);
  t.like(await watched(), { policy: "keep" });
});
