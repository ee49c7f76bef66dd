import { createBilling } from "../../modules/billing/createBilling.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { diagnose } from "./diagnose.ts";
import { runImpact } from "./runImpact.ts";

const test = testWithDatabase();

/** Runs doctor and returns what one of its checks says. */
const diagnoseOne = async (name: string, env: Readonly<Record<string, string>>): Promise<string> =>
  (await diagnose((...args) => runImpact(args, { env }))).of(name);

test.serial(
  "doctor says which permissions a restricted key lacks, and what webhooks need",
  async (t) => {
    const { db, databaseUrl } = t.context;
    const { control, close, ...stripe } = await startStripeDouble();
    t.teardown(close);
    const { secretKey } = stripe;
    await createBilling({
      db,
      stripe: connectStripe({ secretKey, apiBase: stripe.url }),
    }).prepare();
    const env = {
      DATABASE_URL: databaseUrl,
      STRIPE_SECRET_KEY: secretKey,
      STRIPE_API_BASE: stripe.url,
    };

    const complete = await diagnose((...args) =>
      runImpact(args, { env: { ...env, STRIPE_WEBHOOK_SECRET: "whsec_1,whsec_2" } }),
    );
    const message =
      "The provided key 'rk_test_x' does not have the required permissions for this endpoint on account 'acct_1'. " +
      "Having the 'rak_customer_read' permission would allow this request to continue.";
    const body = { error: { type: "invalid_request_error", message } };
    control.addFault({
      kind: "respond",
      method: "GET",
      path: "/v1/customers/cus_none",
      status: 403,
      body,
    });
    const incomplete = await diagnose((...args) => runImpact(args, { env }));

    t.is(complete.of("Stripe key"), "ok: the key may read all that is needed");
    t.is(complete.of("Stripe webhooks"), "ok: 2 signing secrets are set");
    t.regex(complete.of("Stripe grace period"), /^skipped: /u);
    t.regex(incomplete.of("Stripe key"), /^wrong: .*'rak_customer_read' permission/u);
    t.regex(
      incomplete.of("Stripe webhooks"),
      /^warning: STRIPE_WEBHOOK_SECRET has 0 secrets here/u,
    );
  },
);

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
  await runImpact(["usage", "hold", "--reason", "copied disk"], { env: settings });
  const separated = await runImpact(["usage", "resume", "--as-copy"], { env: settings });
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
