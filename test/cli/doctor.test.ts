import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { lockFolder, writeRunFile } from "../../runtime/runFile.ts";
import { changeDeployment } from "../../modules/billing/deployment.sql.ts";
import { drainUsage } from "../billing/drainUsage.ts";
import { updateOrganization } from "../../modules/accounts/manageOrganizations.ts";
import { updateStore } from "../../modules/stores/manageStores.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseContext, DatabaseTest } from "../support/database.ts";
import { createTestOrganization, refundFor, registerFor } from "../support/factories.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually, startProgram } from "../support/programs.ts";
import { answer } from "../events/startReceiver.ts";
import { setUpWebhooks } from "../events/webhookScene.ts";
import { setUp } from "./workflowSetup.ts";
import { diagnose } from "./diagnose.ts";
import { impactOf, readJson, runImpact } from "./runImpact.ts";
import type { Run } from "./runImpact.ts";

// Serial, because a worker serves everything that waits in the database of the file.
const test = testWithDatabase();

/** Gives the test a database of its own, because doctor checks all records of a database. */
const openOwnDatabase = async (t: DatabaseTest): Promise<DatabaseContext> => {
  const databaseUrl = await copyDatabase(t);
  const db = await openTestPool(t, databaseUrl);
  t.context = { ...t.context, db, databaseUrl };
  return t.context;
};

test.serial("doctor and workflow show follow a refund through an outage of Stripe", async (t) => {
  const { db } = t.context;
  const { settings } = await setUp(t);
  const double = await startStripeDouble(t);
  const env = { ...settings, ...double.env };
  const impact = (...args: readonly string[]): Promise<Run> => runImpact(args, { env });
  const fresh = await diagnose(impact);
  t.is(fresh.exitCode, 1);
  t.regex(fresh.of("database"), /^ok: PostgreSQL/u);
  t.regex(fresh.of("clock"), /^ok/u);
  t.regex(fresh.of("Temporal"), /^ok/u);
  for (const queue of ["background", "interactive"]) {
    t.regex(fresh.of(`worker (${queue})`) ?? "", /^wrong: no worker polls/u);
  }
  t.regex(fresh.of("Stripe"), /^wrong: Stripe has no meter/u);
  t.regex(fresh.of("usage"), /^ok/u);
  const unseen = /^wrong: no worker has looked for usage so far.* if one has just started$/u;
  t.regex(fresh.of("usage sender"), unseen);
  t.regex(fresh.of("webhook sender"), /^wrong: no worker has looked for deliveries so far/u);
  const { customerId } = double.control.addSubscriber({});

  await startProgram(t, "worker/main.ts", env);
  await eventually(async () => (await diagnose(impact)).exitCode === 0);

  double.control.addFault({ kind: "server_error", times: 1_000_000 });
  const { id } = await createTestOrganization(db, { stripeCustomerId: customerId });
  const registration = await registerFor(db, id, { count: 5 });
  // The registration is being sent before it is refunded, so that both must be sent.
  await eventually(
    async () =>
      (await db.oneFirst(sql.type(z.strictObject({ count: z.bigint() }))`
        SELECT count(*) FROM meter_event WHERE account_id = ${id} AND state = 'pending' AND first_attempt_at IS NOT NULL
      `)) > 0n,
  );
  const owner = { accountId: id, mode: "live", kind: "tree" } as const;
  await refundFor({ db, clock: systemClock }, owner, registration.id, 2);
  const activities = z.looseObject({
    activity: z.string(),
    attempt: z.int(),
    last_failure: z.string().nullable(),
    next_attempt_at: z.iso.datetime().nullable(),
  });
  const shown = z.looseObject({ status: z.string(), pending_activities: z.array(activities) });
  const show = async () => {
    const run = await impact("workflow", "show", `refund-${registration.id}`, "--json");
    return run.exitCode === 0 ? shown.parse(readJson(run)) : null;
  };
  await eventually(async () => {
    const [activity] = (await show())?.pending_activities ?? [];
    return activity?.last_failure !== null && activity?.last_failure !== undefined;
  });
  const human = await impact("workflow", "show", `refund-${registration.id}`);
  t.regex(human.stdout, /ACTIVITY +ATTEMPT/u);
  t.regex(human.stdout, /confirmRefund/u);

  double.control.clearFaults();
  await eventually(async () => (await show())?.status === "completed");
  t.is(double.control.units({ customerId }), 3);
});

test.serial("doctor reports failed usage, bad Stripe keys and missing settings", async (t) => {
  const { db } = t.context;
  const { settings } = await setUp(t);
  const { id } = await createTestOrganization(db, { stripeCustomerId: "cus_waiting" });
  await db.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, failure, sealed_at)
    VALUES (${id}, 'live', 'tree', 1, 1, 1, ${id}, 'stripe', 'failed', 'refused', now())
  `);
  const store = await createTestStore(db);
  const deps = { db, clock: systemClock, actor: SERVICE };
  await updateStore(deps, store.id, { charityProvider: "everyorg" });
  await updateStore(deps, store.id, { isInstalled: false });
  await updateOrganization(deps, id, { charityProvider: "pledge" });
  const { env } = await startStripeDouble(t);

  const rejected = await diagnose({ ...settings, ...env, STRIPE_SECRET_KEY: "sk_test_other" });
  const missing = await diagnose(settings);

  t.is(rejected.exitCode, 1);
  t.is(rejected.of("usage"), "wrong: 1 item needs a person (1 refused); see `impact usage`");
  t.regex(rejected.of("Stripe"), /^wrong: .*API [Kk]ey/u);
  t.false(rejected.of("Stripe").includes("sk_test_other"));
  t.regex(rejected.of("charity providers"), /^wrong: PLEDGE_API_KEY is not set here/u);
  t.notRegex(rejected.of("charity providers"), /EVERYORG/u, "the store is uninstalled");
  t.regex(
    missing.of("Stripe"),
    /^wrong: STRIPE_SECRET_KEY is not set here, and \d+ organizations? ha.* a Stripe customer/u,
  );
});

test.serial("doctor does not check the APIs of an npm start with another database", async (t) => {
  const { settings } = await setUp(t);
  const folder = await makeTestFolder(t);
  t.teardown(lockFolder(folder, 0));
  await writeRunFile(folder, {
    apiUrl: "http://127.0.0.1:1",
    storeUrl: "http://127.0.0.1:1",
    databaseUrl: "postgres://impact_app@127.0.0.1:1/other",
    databaseOwnerUrl: "postgres://impact@127.0.0.1:1/other",
    temporalAddress: "127.0.0.1:1",
    temporalNamespace: "default",
  });

  const found = await diagnose({ ...settings, DATA_DIR: folder });

  t.regex(found.of("standalone API"), /^skipped/u);
  t.regex(found.of("settings"), /no `npm start` with this database is running/u);
});

test.serial("doctor reports every unreachable service, not only the first", async (t) => {
  const env = {
    DATABASE_URL: "postgres://impact@127.0.0.1:1/impact",
    TEMPORAL_ADDRESS: "127.0.0.1:1",
    STRIPE_SECRET_KEY: "sk_test_x",
    STRIPE_API_BASE: "http://127.0.0.1:1",
  };
  const { exitCode, list } = await diagnose(env);
  t.is(exitCode, 1);
  const wrong = list.filter(({ status }) => status === "wrong").map(({ check }) => check);
  t.deepEqual(wrong, ["database", "Temporal", "Stripe"]);

  const withoutStripe = await diagnose({ ...env, STRIPE_SECRET_KEY: "" });
  t.regex(withoutStripe.of("Stripe"), /^skipped: STRIPE_SECRET_KEY is not set here/u);
  t.is(withoutStripe.of("planting partner"), "ok: simulated");
});

test("doctor reports a database that refuses writes", async (t) => {
  const { databaseUrl } = await openOwnDatabase(t);
  const url = new URL(databaseUrl);
  url.searchParams.set("options", "-c default_transaction_read_only=on");
  const { of } = await diagnose({ DATABASE_URL: url.href, TEMPORAL_ADDRESS: "127.0.0.1:1" });
  t.regex(of("database"), /^ok/u);
  t.regex(of("database writes"), /^wrong: the database is read-only/u);
});

test("doctor reports a hold, and usage that Stripe is asked about only when that takes too long", async (t) => {
  const { db, databaseUrl } = await openOwnDatabase(t);
  const double = await startStripeDouble(t);
  const billing = await double.openBilling(db);
  const { customerId } = double.control.addSubscriber({});
  const { id } = await createTestOrganization(db, { stripeCustomerId: customerId });
  await registerFor(db, id, { clock: { now: () => new Date(Date.now() - 10 * 60 * 1000) } });
  const env = { DATABASE_URL: databaseUrl, ...double.env };
  const diagnoseIn = (minutes: number) => {
    const clock = { now: () => new Date(Date.now() + minutes * 60 * 1000) };
    return diagnose((...args) => runImpact(args, { env, clock }));
  };

  await runImpact(["usage", "hold", "--reason", "restored disk"], { env });
  const held = await diagnoseIn(0);
  t.is(held.of("usage"), "wrong: 1 item needs a person (the hold of usage); see `impact usage`");
  t.regex(held.of("unreported usage"), /^wrong: the oldest is from/u);

  await runImpact(["usage", "resume", "--after-restore"], { env });
  const deps = { db, clock: systemClock, billing };
  await drainUsage(deps, { accountId: id, mode: "live", kind: "tree" });
  const asking = await diagnoseIn(0);
  t.is(asking.of("usage"), "ok: nothing needs a person");
  t.regex(asking.of("unreported usage"), /^ok: Stripe is asked about all of it/u);
  t.regex((await diagnoseIn(21)).of("unreported usage"), /^wrong: the oldest is from/u);
});

test("a hold of a deployment that the built-in ledger bills ends without a question to Stripe", async (t) => {
  const { db, databaseUrl } = await openOwnDatabase(t);
  await db.transaction((transaction) =>
    changeDeployment(transaction, { processor: { name: "ledger" } }),
  );
  const env = { DATABASE_URL: databaseUrl };
  await runImpact(["usage", "hold", "--reason", "restored disk"], { env });
  const { stdout } = await runImpact(["usage", "resume", "--after-restore"], { env });
  t.regex(stdout, /^Ended the hold of .* The workers add usage to the built-in ledger/u);
  t.notRegex(stdout, /Stripe/u);
});

test("an organization without a Stripe customer is a warning until it has live usage", async (t) => {
  const { db, databaseUrl } = await openOwnDatabase(t);
  const { env, openBilling } = await startStripeDouble(t);
  await openBilling(db);
  const { id } = await createTestOrganization(db, { name: "Demo organization" });
  const check = async () =>
    (await diagnose({ DATABASE_URL: databaseUrl, ...env })).of("Stripe customers");

  await registerFor(db, id, { mode: "test" });
  t.regex(
    await check(),
    /^warning: 1 organization has no Stripe customer, such as Demo organization\. Before .*--stripe-customer/u,
  );
  await registerFor(db, id);
  t.regex(await check(), /^wrong: 1 organization with live usage has no Stripe customer/u);
});

test("doctor warns of endpoints that fail or are disabled", async (t) => {
  const { databaseUrl } = await openOwnDatabase(t);
  const { receiver, record, deliver } = await setUpWebhooks(t);
  const check = async () => (await diagnose({ DATABASE_URL: databaseUrl })).of("webhook endpoints");
  t.is(await check(), "ok: none fails");
  receiver.respond(answer(500));
  await record("failed");
  await deliver();
  t.regex(await check(), /^warning: 1 endpoint fails, 0 disabled/u);
  receiver.respond(answer(410));
  await record("gone");
  await deliver();
  t.regex(
    await check(),
    /^warning: 0 endpoints fail, 1 disabled because of failures; .*`impact webhook update ID --enable`/u,
  );
});

test.serial("doctor says what a restricted key lacks, and what webhooks need", async (t) => {
  const { db, databaseUrl } = t.context;
  const { control, openBilling, ...stripe } = await startStripeDouble(t);
  await openBilling(db);
  const env = { DATABASE_URL: databaseUrl, ...stripe.env };

  const complete = await diagnose({ ...env, STRIPE_WEBHOOK_SECRET: "whsec_1,whsec_2" });
  const message =
    "The provided key 'rk_test_x' does not have the required permissions for this endpoint on account 'acct_1'. " +
    "Having the 'rak_customer_read' permission would allow this request to continue.";
  const body = { error: { type: "invalid_request_error", message } };
  const request = { method: "GET", path: "/v1/customers/cus_none" };
  control.addFault({ kind: "respond", ...request, status: 403, body });
  const incomplete = await diagnose(env);

  t.is(complete.of("Stripe key"), "ok: the key may read all that is needed");
  t.is(complete.of("Stripe webhooks"), "ok: 2 signing secrets are set");
  t.regex(complete.of("Stripe grace period"), /^skipped: /u);
  t.regex(incomplete.of("Stripe key"), /^wrong: .*'rak_customer_read' permission/u);
  t.regex(incomplete.of("Stripe webhooks"), /^warning: STRIPE_WEBHOOK_SECRET has 0 secrets here/u);
});

test("doctor of a separated copy rejects the original's live key, and does not ask for one", async (t) => {
  const databaseUrl = await copyDatabase(t);
  const db = await openTestPool(t, databaseUrl, 1);
  const { env, openBilling } = await startStripeDouble(t, { secretKey: "sk_live_double" });
  await openBilling(db);
  await createTestOrganization(db, { stripeCustomerId: "cus_of_the_original" });
  await db.end();
  const settings = { DATABASE_URL: databaseUrl };
  const withKey = { ...settings, ...env };
  const processor = async () => (await diagnose(withKey)).of("billing processor");
  t.regex(await processor(), /^ok: the Stripe account acct_double/u);
  await runImpact(["usage", "hold", "--reason", "copied disk"], { env: settings });
  await impactOf(t, { env: settings }).ok("usage", "resume", "--as-copy");

  t.regex(
    await processor(),
    /^wrong: This deployment is a copy of one .* Unset it, or set it to a key in test mode\.$/u,
  );
  const { of } = await diagnose(settings);
  t.is(of("billing processor"), "ok: the next worker that starts records its own");
  t.is(
    of("Stripe"),
    "skipped: STRIPE_SECRET_KEY is not set here; in this copy, live usage of 1 organization with a Stripe customer waits",
  );
});
