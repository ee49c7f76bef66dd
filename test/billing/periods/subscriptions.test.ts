import type { ExecutionContext } from "ava";
import { pino } from "pino";
import { z } from "zod";
import { listWatchedSubscriptions } from "../../../modules/billing/processorEvents/stripeSubscriptions.sql.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import type { SubscriptionPolicy } from "../../../modules/accounts/accounts.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { createWebhookReader } from "../../../modules/billing/stripe/createWebhookReader.ts";
import { createWorkerMetrics } from "../../../worker/createWorkerMetrics.ts";
import { createAuthenticator } from "../../../modules/accounts/createAuthenticator.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { issueKey } from "../../../modules/accounts/issueKey.ts";
import { processProcessorEvents } from "../../../modules/billing/processorEvents/processProcessorEvents.ts";
import { sweepSubscriptions } from "../../../modules/billing/processorEvents/refreshSubscriptions.ts";
import type { StripeSweep } from "../../../modules/billing/processorEvents/refreshSubscriptions.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { TEMPORAL_ADDRESS } from "../../support/programs.ts";
import { callDouble } from "../../stripeDouble/doubleScene.ts";
import type { StripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { setUpBilling } from "../billingSetup.ts";

// Serial, because a sweep reads every subscription of the file's database.
const test = testWithDatabase().serial;

const SECRET = "whsec_of_the_tests";
const DAY = 86_400;

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const { db, databaseUrl } = t.context;
  for (const { accountId } of await listWatchedSubscriptions(db, null)) {
    await updateAccount(db, accountId, { stripeSubscriptionId: null });
  }
  const setup = await setUpBilling(t);
  const { deps, double, stream } = setup;
  const { accountId } = stream;
  const api = await startStandaloneApi(t, {
    ...deps,
    // Nothing is cached, so that a change is seen immediately.
    authenticator: (key) => createAuthenticator({ db, accountType: "organization" })(key),
    readStripeWebhook: createWebhookReader([SECRET]),
  });
  double.control.setWebhook({ url: `${api.url}/webhooks/stripe`, secret: SECRET });
  const keyOf = async (mode: "live" | "test"): Promise<string> =>
    (await issueKey({ ...deps, actor: SERVICE }, { id: accountId, type: "organization" }, mode))
      .key;
  const [live, testKey] = [await keyOf("live"), await keyOf("test")];
  const failed: string[] = [];
  return {
    ...setup,
    failed,
    setPolicy: (subscriptionPolicy: SubscriptionPolicy) =>
      updateAccount(db, accountId, { subscriptionPolicy }),
    sweep: (): Promise<StripeSweep> =>
      sweepSubscriptions(deps, deps.clock.now(), {
        signal: new AbortController().signal,
        onFailure: (id) => failed.push(id),
        intervalMs: 0,
      }),
    process: () =>
      processProcessorEvents(
        {
          ...deps,
          observeLateRefusal: () => undefined,
          observeFailedEvent: () => undefined,
          creditCheckout: () => Promise.resolve(),
        },
        new AbortController().signal,
      ),
    watched: async () => (await listWatchedSubscriptions(db, accountId))[0] ?? null,
    plant: (mode: "live" | "test" = "live", fields: Readonly<Record<string, unknown>> = {}) =>
      api.call("POST", "/plant/trees", {
        key: mode === "live" ? live : testKey,
        body: { count: 1, ...fields },
      }),
    rescue: () => api.call("POST", "/rescue/plastic_bottles", { key: live, body: { count: 1 } }),
    impact: (...args: readonly string[]) =>
      runImpact(args, { env: { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS }, clock: deps.clock }),
    impactWithKey: (...args: readonly string[]) =>
      runImpact(args, {
        env: {
          DATABASE_URL: databaseUrl,
          TEMPORAL_ADDRESS,
          STRIPE_SECRET_KEY: double.secretKey,
          STRIPE_API_BASE: double.url,
        },
        clock: deps.clock,
      }),
  };
};

const items = z.looseObject({
  data: z.array(z.looseObject({ price: z.looseObject({ id: z.string() }) })),
});

/** Returns the price of a subscription's first item, which is on the meter of trees. */
const firstPrice = async (double: StripeDouble, subscriptionId: string): Promise<string> => {
  const { body } = await callDouble(double, "GET", "/v1/subscription_items", {
    subscription: subscriptionId,
  });
  return items.parse(body).data[0]?.price.id ?? "";
};

test("the sweep stores the status, the priced meters and the periods, and keeps past periods", async (t) => {
  const { sweep, watched, pass, double, subscriptionId, register, drain, deps, stream } =
    await setUp(t);
  pass(1);
  t.deepEqual(await sweep(), { read: 1, failed: 0 });
  t.like(await watched(), { status: "active", meteredKinds: ["tree", "bottle"] });
  // Usage that is refused until after its period, and another sweep meanwhile.
  pass(29 * DAY);

  await register(5);
  pass(5);
  double.control.changeSubscription({ subscriptionId, status: "past_due" });
  pass(3 * DAY);
  t.deepEqual(await sweep(), { read: 1, failed: 0 });
  t.like(await watched(), { status: "past_due" });
  await drain();
  const late = await listMeterEvents(deps.db, {
    state: "late",
    accountId: stream.accountId,
    limit: 9,
  });
  t.deepEqual(
    late.map(({ quantity }) => quantity),
    [5],
  );
});

test("a sweep continues where an earlier one ended, and one failure does not stop it", async (t) => {
  const { sweep, pass, double, failed, deps } = await setUp(t);
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  const other = await createTestOrganization(deps.db, {
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  pass(1);
  double.control.addFault({
    kind: "server_error",
    method: "GET",
    path: `/v1/subscriptions/${subscriptionId}`,
  });
  t.deepEqual(await sweep(), { read: 1, failed: 1 });
  t.deepEqual(failed, [other.id]);
  t.deepEqual(await sweep(), { read: 1, failed: 0 });
  t.deepEqual(await sweep(), { read: 0, failed: 0 });
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

test("with the policy suspend, live registrations are rejected while the subscription is not active", async (t) => {
  const { setPolicy, sweep, plant, pass, double, subscriptionId } = await setUp(t);
  const setStatus = async (status: "active" | "past_due"): Promise<void> => {
    double.control.changeSubscription({ subscriptionId, status });
    pass(1);
    await sweep();
  };
  await setStatus("past_due");
  t.is((await plant()).status, 200);
  await setPolicy("suspend");
  const rejected = await plant();
  t.is(rejected.status, 403);
  t.deepEqual(rejected.body, {
    error: "registrations are suspended because the organization's subscription is past_due",
  });
  t.is((await plant("test")).status, 200);
  await setStatus("active");
  t.is((await plant()).status, 200);
});

test("the sweep reads a subscription that a fast clock has dated", async (t) => {
  const { sweep, watched, pass, double, subscriptionId } = await setUp(t);
  pass(2 * DAY);
  await sweep();
  pass(-DAY);
  double.control.changeSubscription({ subscriptionId, status: "past_due" });

  t.deepEqual(await sweep(), { read: 1, failed: 0 });

  t.like(await watched(), { status: "past_due" });
});

test("a webhook that a fast clock has dated is processed", async (t) => {
  const { process, watched, pass, double, subscriptionId } = await setUp(t);
  pass(2 * DAY);
  double.control.changeSubscription({ subscriptionId, status: "past_due" });
  await double.control.announce({
    type: "customer.subscription.updated",
    objectId: subscriptionId,
  });
  pass(-2 * DAY);

  await process();

  t.like(await watched(), { status: "past_due" });
});

test("org list, org show and doctor report subscriptions that need attention", async (t) => {
  const { impact, sweep, pass, double, subscriptionId, stream } = await setUp(t);
  const { accountId: id } = stream;
  double.control.changeSubscription({ subscriptionId, status: "unpaid" });
  pass(1);
  await sweep();
  t.like(readJson(await impact("org", "show", id, "--json")), {
    subscription_policy: "alert",
    subscription: { status: "unpaid", priced_meters: ["tree", "bottle"] },
  });
  t.regex((await impact("org", "list")).stdout, /unpaid +alert/u);
  t.regex((await impact("doctor")).stdout, /its subscription is unpaid\./u);
  const updated = await impact("org", "update", id, "--subscription-policy", "keep");
  t.is(updated.exitCode, 0, updated.stderr);
  t.is((await impact("org", "update", id, "--subscription-policy", "maybe")).exitCode, 2);
});

test("a removed price is stored; a worker without Stripe's key sweeps none", async (t) => {
  const { sweep, watched, pass, double, subscriptionId, deps } = await setUp(t);
  const priceOfTrees = await firstPrice(double, subscriptionId);
  double.control.changeSubscription({ subscriptionId, removePrices: [priceOfTrees] });
  pass(1);
  await sweep();
  t.like(await watched(), { status: "active", meteredKinds: ["bottle"] });
  const without = await sweepSubscriptions(
    { ...deps, billing: createBilling({ db: deps.db, stripe: null }) },
    new Date(deps.clock.now().getTime() + 1000),
    { signal: new AbortController().signal, onFailure: () => undefined },
  );
  t.deepEqual(without, { read: 0, failed: 0 });
});

test("with the policy suspend, a removed price suspends the registrations of its meter", async (t) => {
  const { setPolicy, sweep, plant, rescue, pass, double, subscriptionId } = await setUp(t);
  await setPolicy("suspend");
  const priceOfTrees = await firstPrice(double, subscriptionId);
  double.control.changeSubscription({ subscriptionId, removePrices: [priceOfTrees] });
  pass(1);
  await sweep();
  const rejected = await plant();
  t.is(rejected.status, 403);
  t.deepEqual(rejected.body, {
    error:
      "registrations of trees are suspended because the organization's subscription has no price on the meter of trees",
  });
  t.is((await rescue()).status, 200);
  t.is((await plant("test")).status, 200);
  await setPolicy("alert");
  t.is((await plant()).status, 200);
});

test("a removed price is a problem of organizations that use the meter, and only of them", async (t) => {
  const { impact, sweep, pass, double, subscriptionId, stream, plant, deps } = await setUp(t);
  const problemsOf = async (): Promise<unknown> => {
    const shown = readJson(await impact("org", "show", stream.accountId, "--json"));
    return z.looseObject({ subscription: z.looseObject({ problems: z.unknown() }) }).parse(shown)
      .subscription.problems;
  };
  const countProblems = async (): Promise<string | undefined> => {
    const metrics = createWorkerMetrics({ ...deps, logger: pino({ level: "silent" }) });
    const lines = (await metrics.read()).split("\n");
    return lines.find((line) =>
      line.startsWith('impact_subscription_problems{problem="unpriced_meter",policy="alert"}'),
    );
  };
  const priceOfTrees = await firstPrice(double, subscriptionId);
  double.control.changeSubscription({ subscriptionId, removePrices: [priceOfTrees] });
  pass(1);
  await sweep();
  t.deepEqual(await problemsOf(), []);
  t.regex((await countProblems()) ?? "", / 0$/u);
  t.is((await plant()).status, 200);
  t.deepEqual(await problemsOf(), ["has no price on the meter of trees"]);
  t.regex((await countProblems()) ?? "", / 1$/u);
  t.regex((await impact("org", "list")).stdout, /has no price on the meter of trees/u);
  t.regex(
    (await impact("doctor")).stdout,
    /its subscription has no price on the meter of trees\./u,
  );
});

test("while registrations are suspended, a repeated request gets its original record", async (t) => {
  const { setPolicy, sweep, plant, pass, double, subscriptionId, recorded } = await setUp(t);
  const request = { idempotency_key: "order-1" };
  const first = await plant("live", request);
  await setPolicy("suspend");
  double.control.changeSubscription({ subscriptionId, status: "past_due" });
  pass(1);
  await sweep();
  const repeated = await plant("live", request);
  t.is(repeated.status, 200);
  t.deepEqual(repeated.body, first.body);
  t.is(repeated.headers.get("Idempotent-Replayed"), "true");
  t.is((await plant("live", { idempotency_key: "order-2" })).status, 403);
  t.is((await plant()).status, 403);
  t.deepEqual(Object.values(await recorded()), [1]);
});

test("org create and org update read the subscription, and an outage of Stripe is only a warning", async (t) => {
  const { impactWithKey, watched, double, subscriptionId, stream, deps } = await setUp(t);
  const { accountId: id } = stream;
  t.is(await watched(), null);
  const updated = await impactWithKey("org", "update", id, "--subscription-policy", "suspend");
  t.is(updated.exitCode, 0, updated.stderr);
  t.like(await watched(), { status: "active", meteredKinds: ["tree", "bottle"] });

  const other = double.control.addSubscriber({});
  const create = ["org", "create", "--name", "New", "--json"];
  const settings = [
    ["--stripe-customer", other.customerId],
    ["--stripe-subscription", other.subscriptionId],
  ].flat();
  const created = await impactWithKey(...create, ...settings);
  t.is(created.exitCode, 0, created.stderr);
  const { id: newId } = z.looseObject({ id: z.string() }).parse(readJson(created));
  t.like((await listWatchedSubscriptions(deps.db, newId))[0], { status: "active" });

  const path = `/v1/subscriptions/${subscriptionId}`;
  double.control.addFault({ kind: "server_error", method: "GET", path, times: 100 });
  const during = await impactWithKey("org", "update", id, "--subscription-policy", "keep");
  t.is(during.exitCode, 0);
  t.regex(during.stderr, /^Warning: Stripe could not check the customer and the subscription/mu);
  t.like(await watched(), { policy: "keep" });
});
