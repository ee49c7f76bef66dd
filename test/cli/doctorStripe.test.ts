import type { ExecutionContext } from "ava";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { DatabaseContext } from "../support/database.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { diagnose } from "./diagnose.ts";
import { runImpact } from "./runImpact.ts";

const test = testWithDatabase();

const CUSTOMERS = 7;
const CONCURRENT_CALLS = 5;

/** Runs doctor and returns what one of its checks says. */
const diagnoseOne = async (name: string, env: Readonly<Record<string, string>>): Promise<string> =>
  (await diagnose((...args) => runImpact(args, { env }))).of(name);

/** Creates organizations with customers at Stripe; `checkCustomers` runs doctor and returns what it says of them. */
const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const { db, databaseUrl } = t.context;
  const { control, close, ...stripe } = await startStripeDouble();
  t.teardown(close);
  await createBilling({
    db,
    stripe: connectStripe({ secretKey: stripe.secretKey, apiBase: stripe.url }),
  }).prepare();
  const paths: string[] = [];
  for (let number = 0; number < CUSTOMERS; number += 1) {
    const { customerId } = control.addCustomer({});
    await createTestOrganization(db, { stripeCustomerId: customerId });
    paths.push(`/v1/customers/${customerId}`);
  }
  const checkCustomers = () =>
    diagnoseOne("Stripe customers", {
      DATABASE_URL: databaseUrl,
      STRIPE_SECRET_KEY: stripe.secretKey,
      STRIPE_API_BASE: stripe.url,
    });
  /** Sends a request, which arrives after those that were sent before. */
  const callStripe = () =>
    fetch(`${stripe.url}/v1/billing/meters`, {
      headers: { Authorization: `Bearer ${stripe.secretKey}` },
    });
  return { control, paths, checkCustomers, callStripe };
};

test.serial("doctor asks Stripe for five customers at the same time", async (t) => {
  const { control, paths, checkCustomers, callStripe } = await setUp(t);
  for (const path of paths) {
    control.addFault({ kind: "hold", method: "GET", path });
  }

  const checked = checkCustomers();
  await eventually(() => control.held() >= CONCURRENT_CALLS);
  // Others that doctor sent with these have arrived when this one has its response.
  await callStripe();
  t.is(control.held(), CONCURRENT_CALLS);
  control.clearFaults();
  control.release();

  t.is(await checked, `ok: Stripe has the newest ${CUSTOMERS} of ${CUSTOMERS} customers`);
});

test.serial("doctor says which permission a restricted key lacks to read customers", async (t) => {
  const { control, paths, checkCustomers } = await setUp(t);
  const message =
    "The provided key 'rk_test_x' does not have the required permissions for this endpoint on account 'acct_1'. " +
    "Having the 'rak_customer_read' permission would allow this request to continue.";
  for (const path of paths) {
    const body = { error: { type: "invalid_request_error", message } };
    control.addFault({ kind: "respond", method: "GET", path, status: 403, body });
  }

  t.regex(await checkCustomers(), /^wrong: .*'rak_customer_read' permission/u);
});

test("doctor of a separated copy rejects the original's live key, and does not ask for one", async (t) => {
  const databaseUrl = await copyDatabase(t);
  const db = await openTestPool(t, databaseUrl, 1);
  const double = await startStripeDouble({ secretKey: "sk_live_double" });
  t.teardown(double.close);
  const stripe = { secretKey: double.secretKey, apiBase: double.url };
  await createBilling({ db, stripe: connectStripe(stripe) }).prepare();
  await createTestOrganization(db, { stripeCustomerId: "cus_of_the_original" });
  await db.end();
  const settings = { DATABASE_URL: databaseUrl };
  const withKey = {
    ...settings,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  };
  t.regex(await diagnoseOne("billing processor", withKey), /^ok: the Stripe account acct_double/u);
  const separate = ["deployment", "separate", "--is-copy", "--as", "maria"];
  const separated = await runImpact(separate, { env: settings });
  t.is(separated.exitCode, 0, separated.stderr);

  t.regex(
    await diagnoseOne("billing processor", withKey),
    /^wrong: This deployment is a copy of one .* Unset it, or set it to a key in test mode\.$/u,
  );
  t.is(
    await diagnoseOne("billing processor", settings),
    "ok: the next worker that starts records its own",
  );
  t.is(
    await diagnoseOne("Stripe", settings),
    "skipped: STRIPE_SECRET_KEY is not set here; in this copy, live usage of 1 organization with a Stripe customer waits",
  );
});
