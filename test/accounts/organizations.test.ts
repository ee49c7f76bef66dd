import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { z } from "zod";
import { KINDS } from "../../modules/records/owner.rules.ts";
import { createAuthenticator } from "../../modules/accounts/createAuthenticator.ts";
import { findAccount } from "../../modules/accounts/accounts.sql.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";
import { readJson, impactOf } from "../cli/runImpact.ts";

const test = testWithDatabase();

const created = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  api_key_prod: z.string(),
  api_key_test: z.string(),
});

test("org create prints the id, the name and two working keys, and nothing else", async (t) => {
  const run = await impactOf(t).json("org", "create", "--name", "Forest & Söhne");
  const organization = created.parse(run);
  t.is(organization.name, "Forest & Söhne");
  const live = await createAuthenticator({ db: t.context.db })(organization.api_key_prod);
  const testing = await createAuthenticator({ db: t.context.db })(organization.api_key_test);
  t.like(live, { accountId: organization.id, mode: "live", fractionalCounting: false });
  t.like(testing, { accountId: organization.id, mode: "test" });
});

test("org create stores every setting", async (t) => {
  const settings =
    "--name All --fractional on --billing-day 31 --stripe-customer cus_1 --stripe-subscription sub_1";
  const { id } = created.parse(await impactOf(t).json("org", "create", ...settings.split(" ")));
  const stripe = { stripeCustomerId: "cus_1", stripeSubscriptionId: "sub_1" };
  const stored = { fractionalCounting: true, billingDay: 31, ...stripe };
  t.like(await findAccount(t.context.db, id), stored);
});

test("a Stripe customer belongs to one organization only", async (t) => {
  const impact = impactOf(t);
  const { id } = await createTestOrganization(t.context.db);
  const create = "org create --name First --stripe-customer cus_taken --json".split(" ");
  await impact.ok(...create);

  const again = await impact(...create);
  const update = await impact("org", "update", id, "--stripe-customer", "cus_taken");

  for (const run of [again, update]) {
    t.is(run.exitCode, 2);
    t.regex(run.stderr, /the Stripe customer belongs to another account/u);
    t.is(run.stdout, "");
  }
  t.is((await findAccount(t.context.db, id))?.stripeCustomerId, null);
});

test("where Stripe bills, an organization without a Stripe customer gets a warning", async (t) => {
  const double = await startStripeDouble(t);
  const create = ["org", "create", "--name", "No customer"];

  const withStripe = await impactOf(t, { env: double.env })(...create);
  const withoutStripe = await impactOf(t)(...create);

  t.is(withStripe.exitCode, 0);
  t.regex(withStripe.stderr, /Warning: The organization has no Stripe customer/u);
  t.notRegex(withoutStripe.stderr, /Warning/u);
});

test("setting a subscription that bills nothing prints a warning", async (t) => {
  const double = await startStripeDouble(t);
  const impact = impactOf(t, { env: double.env });
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  const other = double.control.addSubscriber({});
  const { id } = await createTestOrganization(t.context.db);
  const setTo = async (customer: string, subscription: string): Promise<string> => {
    const settings = ["--stripe-customer", customer, "--stripe-subscription", subscription];
    return (await impact.ok("org", "update", id, ...settings)).stderr;
  };

  t.is(await setTo(customerId, subscriptionId), "");
  const belongs = `belongs to the customer ${other.customerId}, not ${customerId}`;
  const warning = await setTo(customerId, other.subscriptionId);
  t.regex(warning, new RegExp(`^Warning: .* ${belongs}\\.\\n$`, "u"));
  t.regex(await setTo(customerId, "sub_unknown"), /^Warning: .* sub_unknown is missing\.\n$/u);
  const { control } = double;
  const flatOnly = control.addSubscription({ customerId, prices: [control.addPrice({})] });
  const lacks = `Warning: Stripe's subscription ${flatOnly} has no price on the meter of`;
  const warnings = KINDS.map((kind) => `${lacks} ${kind}s.\n`).join("");
  t.is(await setTo(customerId, flatOnly), warnings);
  // A subscription that ends in its first second has no period.
  control.advanceClock({ seconds: 1 });
  control.cancel({ subscriptionId, when: "now_without_invoice" });
  t.regex(await setTo(customerId, subscriptionId), /^Warning: .* is canceled\.\n$/u);
  await double.close();
  const unchecked = /^Warning: Stripe could not check the customer and the subscription: /u;
  t.regex(await setTo(customerId, subscriptionId), unchecked);
});

test("whole keys are printed when they are issued and never again", async (t) => {
  const impact = impactOf(t);
  const { id, apiKeyProd, apiKeyTest } = await createTestOrganization(t.context.db);
  const issued = await impact.json("key", "issue", "--org", id, "--mode", "live");
  const { key } = z
    .strictObject({
      id: z.uuid(),
      name: z.literal("unnamed"),
      mode: z.literal("live"),
      scope: z.literal("write"),
      expires_at: z.null(),
      key: z.string(),
    })
    .parse(issued);
  const listed = await impact.ok("key", "list", "--org", id);
  t.true(listed.stdout.includes(`${key.slice(0, 16)} `));
  for (const { stdout, stderr } of [
    listed,
    await impact.ok("key", "list", "--org", id, "--json"),
    await impact.ok("org", "show", id),
    await impact.ok("org", "show", id, "--json"),
    await impact.ok("org", "list"),
  ]) {
    for (const secret of [apiKeyProd, apiKeyTest, key]) {
      t.false(`${stdout}${stderr}`.includes(secret));
    }
  }
});

test("org create and org update refuse a customer that Stripe does not know", async (t) => {
  const impact = impactOf(t, { env: (await startStripeDouble(t)).env });
  const { id } = await createTestOrganization(t.context.db);
  for (const command of [
    ["create", "--name", "Unknown"],
    ["update", id],
  ]) {
    const run = await impact.fails(2, "org", ...command, "--stripe-customer", "cus_unknown");
    t.regex(run, /No such customer: 'cus_unknown'\. Nothing was changed\./u);
  }
  t.is((await findAccount(t.context.db, id))?.stripeCustomerId, null);
});

test("org update warns about a charity provider without its API key", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  const update = ["org", "update", id, "--charity-provider", "everyorg"];

  const without = await impactOf(t)(...update);
  const withKey = await impactOf(t, { env: { EVERYORG_API_KEY: "key" } })(...update);

  t.is(without.exitCode, 0);
  t.regex(without.stderr, /Warning: EVERYORG_API_KEY is not set here/u);
  t.notRegex(withKey.stderr, /Warning/u);
});

test("org show prints totals by mode and kind, all-time and of this month", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db, { name: "Totals", billingDay: 15 });
  await registerFor(db, id, { mode: "test", kind: "bottle", count: 12 });
  t.like(await impactOf(t).json("org", "show", id), {
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

test("org update changes the given settings, clears Stripe ids given as none, and keeps the rest", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { id } = await createTestOrganization(db, { stripeCustomerId: "cus_a" });
  const updated = await impact("org", "update", id, "--name", "New", "--fractional", "on");
  t.regex(updated.stderr, /until every API process has noticed/u);
  const changed = { name: "New", fractionalCounting: true };
  t.like(await findAccount(db, id), { ...changed, billingDay: 1, stripeCustomerId: "cus_a" });
  const changes = ["--stripe-customer", "none", "--fractional", "off"];
  const run = await impact.json("org", "update", id, ...changes);
  t.like(run, { stripe_customer_id: null, fractional_counting: false, name: "New" });
  t.is((await findAccount(db, id))?.stripeCustomerId, null);
});

test("a subscription without a customer is rejected, changes nothing and leaves no audit entry", async (t) => {
  const { db } = t.context;
  const stripe = { stripeCustomerId: "cus_d", stripeSubscriptionId: "sub_d" };
  const { id } = await createTestOrganization(db, stripe);
  const run = await impactOf(t).fails(2, "org", "update", id, "--stripe-customer", "none");
  t.regex(run, /requires a Stripe customer/u);
  t.is((await findAccount(db, id))?.stripeCustomerId, "cus_d");
  t.deepEqual(await listAuditEntries(db, { accountId: id, action: "org.update" }, 10), []);
  await t.throwsAsync(createTestOrganization(db, { stripeSubscriptionId: "sub_e" }), {
    message: /requires a Stripe customer/u,
  });
});

test("org update prints the profile and the limits that it changed", async (t) => {
  const { id } = await createTestOrganization(t.context.db);
  const update = (...options: readonly string[]) => impactOf(t)("org", "update", id, ...options);
  t.regex((await update("--display-name", "Fjord & Fern")).stdout, /display name +Fjord & Fern/u);
  t.like(readJson(await update("--mode", "test", "--count-per-day", "7", "--json")), {
    profile: { display_name: "Fjord & Fern" },
    limits: [{ mode: "live" }, { mode: "test", count_per_day: 7 }],
  });
});
