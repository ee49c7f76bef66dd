import { z } from "zod";
import { findCaller } from "../../db/accounts/apiKeys.ts";
import { findAccount } from "../../db/accounts/accounts.ts";
import { createRegistrationWriter } from "../../services/registrations/registrationWriter.ts";
import { createStripeClient } from "../../providers/billing/stripe/createStripeClient.ts";
import { systemClock } from "../../domain/clock.ts";
import { hash } from "node:crypto";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import type { Run } from "../cli/runImpact.ts";

const test = testWithDatabase();

const created = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  api_key_prod: z.string(),
  api_key_test: z.string(),
});

const UNKNOWN = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const digest = (key: string): Buffer => hash("sha256", key, "buffer");

test("org create prints the id, the name and two keys that work, and nothing else", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const run = await runImpact(["org", "create", "--name", "Forest & Söhne", "--json"], { env });
  t.is(run.exitCode, 0);
  const organization = created.parse(readJson(run));
  t.is(organization.name, "Forest & Söhne");
  const live = await findCaller(t.context.db, digest(organization.api_key_prod), "organization");
  const testing = await findCaller(t.context.db, digest(organization.api_key_test), "organization");
  t.like(live, { accountId: organization.id, mode: "live", fractionalCounting: false });
  t.like(testing, { accountId: organization.id, mode: "test" });
});

test("org create takes every setting", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const run = await runImpact(
    "org create --name All --fractional --billing-day 31 --stripe-customer cus_1 --stripe-subscription sub_1 --json".split(
      " ",
    ),
    { env },
  );
  const { id } = created.parse(readJson(run));
  t.like(await findAccount(t.context.db, id), {
    fractionalCounting: true,
    billingDay: 31,
    stripeCustomerId: "cus_1",
    stripeSubscriptionId: "sub_1",
  });
});

test("a Stripe customer is billed for one organization only", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const { id } = await createTestOrganization(t.context.db);
  const create = "org create --name First --stripe-customer cus_taken --json".split(" ");
  t.is((await runImpact(create, { env })).exitCode, 0);

  const again = await runImpact(create, { env });
  const update = await runImpact(["org", "update", id, "--stripe-customer", "cus_taken"], { env });

  for (const run of [again, update]) {
    t.is(run.exitCode, 1);
    t.regex(run.stderr, /the Stripe customer is another account's/u);
    t.is(run.stdout, "");
  }
  t.is((await findAccount(t.context.db, id))?.stripeCustomerId, null);
});

test("an organization without a Stripe customer is told of where Stripe bills", async (t) => {
  const double = await startStripeDouble();
  t.teardown(double.close);
  const withKey = {
    DATABASE_URL: t.context.databaseUrl,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  };
  const create = ["org", "create", "--name", "No customer"];

  const told = await runImpact(create, { env: withKey });
  const untold = await runImpact(create, { env: { DATABASE_URL: t.context.databaseUrl } });

  t.is(told.exitCode, 0);
  t.regex(told.stderr, /Warning: it has no Stripe customer/u);
  t.notRegex(untold.stderr, /Warning/u);
});

test("a subscription that bills nothing is told when it is set", async (t) => {
  const double = await startStripeDouble();
  t.teardown(double.close);
  const env = {
    DATABASE_URL: t.context.databaseUrl,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  };
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  const somebody = double.control.addSubscriber({});
  const { id } = await createTestOrganization(t.context.db);
  const setTo = async (customer: string, subscription: string): Promise<string> => {
    const run = await runImpact(
      ["org", "update", id, "--stripe-customer", customer, "--stripe-subscription", subscription],
      { env },
    );
    t.is(run.exitCode, 0);
    return run.stderr;
  };

  t.is(await setTo(customerId, subscriptionId), "");
  t.regex(
    await setTo(customerId, somebody.subscriptionId),
    new RegExp(
      `^Warning: .* is of the customer ${somebody.customerId}, not ${customerId}\\.\\n$`,
      "u",
    ),
  );
  t.regex(await setTo(customerId, "sub_unknown"), /^Warning: No such subscription.*\n$/u);
  const { stripe } = createStripeClient({ secretKey: double.secretKey, apiBase: double.url });
  const flat = await stripe.prices.create({
    currency: "usd",
    unit_amount: 100,
    product_data: { name: "Membership" },
    recurring: { interval: "month" },
  });
  const { id: flatOnly } = await stripe.subscriptions.create({
    customer: customerId,
    items: [{ price: flat.id }],
  });
  const { tree, bottle } = double.control.meterIds();
  t.is(
    await setTo(customerId, flatOnly),
    [tree, bottle]
      .map(
        (meter) =>
          `Warning: Stripe's subscription ${flatOnly} has no item priced on the meter ${meter}.\n`,
      )
      .join(""),
  );
  await stripe.subscriptions.cancel(subscriptionId);
  t.regex(await setTo(customerId, subscriptionId), /^Warning: .* is canceled\.\n$/u);
  await double.close();
  t.regex(await setTo(customerId, subscriptionId), /^Warning: Stripe could not be asked about it/u);
});

test("whole keys are shown when they are created and never again", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const { id, apiKeyProd, apiKeyTest } = await createTestOrganization(t.context.db);
  const issued = await runImpact(["key", "issue", "--org", id, "--mode", "live", "--json"], {
    env,
  });
  const { key } = z
    .strictObject({ id: z.uuid(), mode: z.literal("live"), key: z.string() })
    .parse(readJson(issued));
  const runs: Run[] = [];
  for (const args of [
    ["org", "show", id],
    ["org", "show", id, "--json"],
    ["org", "list"],
    ["key", "list", "--org", id],
    ["key", "list", "--org", id, "--json"],
  ]) {
    runs.push(await runImpact(args, { env }));
  }
  for (const { exitCode, stdout, stderr } of runs) {
    t.is(exitCode, 0);
    for (const secret of [apiKeyProd, apiKeyTest, key]) {
      t.false(`${stdout}${stderr}`.includes(secret));
    }
  }
  t.true(runs[3]?.stdout.includes(`${key.slice(0, 16)}…`));
});

test("a key is rotated without a moment in which none works", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const { db } = t.context;
  const { id, apiKeyProd } = await createTestOrganization(db);
  const issued = await runImpact(["key", "issue", "--org", id, "--mode", "live", "--json"], {
    env,
  });
  const { key } = z.looseObject({ key: z.string() }).parse(readJson(issued));
  const old = await findCaller(db, digest(apiKeyProd), "organization");
  t.not(await findCaller(db, digest(key), "organization"), null);
  const revoked = await runImpact(["key", "revoke", old?.keyId ?? ""], { env });
  t.is(revoked.exitCode, 0);
  t.is(await findCaller(db, digest(apiKeyProd), "organization"), null);
  t.not(await findCaller(db, digest(key), "organization"), null);
  t.false(revoked.stderr.includes("no live key any more"));
});

test("revoking the last key of a mode says so", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const { db } = t.context;
  const { apiKeyTest } = await createTestOrganization(db);
  const caller = await findCaller(db, digest(apiKeyTest), "organization");
  const { stderr } = await runImpact(["key", "revoke", caller?.keyId ?? ""], { env });
  t.true(stderr.includes("no test key any more"));
});

test("org show tells totals by mode and kind and this month's", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id } = await createTestOrganization(db, { name: "Totals", billingDay: 15 });
  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(id, { mode: "test", kind: "bottle", count: 12 }));
  const run = await runImpact(["org", "show", id, "--json"], {
    env: { DATABASE_URL: databaseUrl },
  });
  t.like(readJson(run), {
    id,
    name: "Totals",
    billing_day: 15,
    stripe_customer_id: null,
    totals: [
      { mode: "live", kind: "tree", all: 0, month: 0 },
      { mode: "live", kind: "bottle", all: 0, month: 0 },
      { mode: "test", kind: "tree", all: 0, month: 0 },
      { mode: "test", kind: "bottle", all: 12, month: 12 },
    ],
  });
});

test("org update changes what is named, takes Stripe's ids away with none, and keeps the rest", async (t) => {
  const { db, databaseUrl } = t.context;
  const env = { DATABASE_URL: databaseUrl };
  const { id } = await createTestOrganization(db, { stripeCustomerId: "cus_a" });
  await runImpact(["org", "update", id, "--name", "New", "--fractional", "on"], { env });
  t.like(await findAccount(db, id), {
    name: "New",
    fractionalCounting: true,
    billingDay: 1,
    stripeCustomerId: "cus_a",
  });
  const run = await runImpact(
    ["org", "update", id, "--stripe-customer", "none", "--fractional", "off", "--json"],
    { env },
  );
  t.like(readJson(run), { stripe_customer_id: null, fractional_counting: false, name: "New" });
  t.is((await findAccount(db, id))?.stripeCustomerId, null);
});

test("a subscription without a customer is refused and changes nothing", async (t) => {
  const { db, databaseUrl } = t.context;
  const env = { DATABASE_URL: databaseUrl };
  const { id } = await createTestOrganization(db, {
    stripeCustomerId: "cus_d",
    stripeSubscriptionId: "sub_d",
  });
  const run = await runImpact(["org", "update", id, "--stripe-customer", "none"], { env });
  t.is(run.exitCode, 1);
  t.regex(run.stderr, /needs a Stripe customer/u);
  t.is((await findAccount(db, id))?.stripeCustomerId, "cus_d");
  await t.throwsAsync(createTestOrganization(db, { stripeSubscriptionId: "sub_e" }), {
    message: /needs a Stripe customer/u,
  });
});

test("what does not exist is told with exit code 3", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  for (const args of [
    ["org", "show", UNKNOWN],
    ["org", "update", UNKNOWN, "--name", "x"],
    ["key", "list", "--org", UNKNOWN],
    ["key", "issue", "--org", UNKNOWN, "--mode", "live"],
    ["key", "revoke", UNKNOWN],
    ["usage", "list", "--org", UNKNOWN],
    ["usage", "show", UNKNOWN],
    ["usage", "retry", "--org", UNKNOWN],
    ["usage", "reconcile", "--org", UNKNOWN],
    ["import", "registrations", "-", "--org", UNKNOWN],
  ]) {
    const { exitCode, stdout, stderr } = await runImpact(args, { env });
    t.is(exitCode, 3, args.join(" "));
    t.is(stdout, "");
    t.true(stderr.includes(UNKNOWN));
  }
});
