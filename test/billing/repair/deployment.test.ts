import type { ExecutionContext } from "ava";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import type { Billing } from "../../../modules/billing/createBilling.ts";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { ProcessorMismatchError } from "../../../modules/billing/processor.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { refusal } from "../../stripeDouble/faults.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registerFor } from "../../support/factories.ts";
import { startProgram } from "../../support/programs.ts";
import { drainUsage } from "../drainUsage.ts";

const test = testWithDatabase().serial;

type T = ExecutionContext<DatabaseContext>;

test.beforeEach(async (t) => {
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE deployment SET processor = NULL, stripe_account_id = NULL, stripe_livemode = NULL
  `);
});

const billingOf = ({ context: { db } }: T, double: StripeDouble | null): Billing =>
  createBilling({ db, stripe: double && connectStripe(double.stripe) });

/** Registers usage of an organization, and sends it as a worker with some billing does. */
const send = async ({ context: { db } }: T, billing: Billing, stripeCustomerId: string | null) => {
  const { id: accountId } = await createTestOrganization(db, { stripeCustomerId });
  // Old enough to be sealed immediately.
  const clock = { now: () => new Date(Date.now() - 10_000) };
  await registerFor(db, accountId, { clock, count: 3 });
  return drainUsage({ db, clock: systemClock, billing }, { accountId, mode: "live", kind: "tree" });
};

test("a process without the key does not bill a deployment on Stripe", async (t) => {
  await billingOf(t, await startStripeDouble(t)).prepare();
  const withoutKey = billingOf(t, null);

  await t.throwsAsync(withoutKey.prepare(), {
    instanceOf: ProcessorMismatchError,
    message: /acct_double \(test mode\), but STRIPE_SECRET_KEY is not set\. Set it/u,
  });
  await t.throwsAsync(startProgram(t, "worker/main.ts", { DATABASE_URL: t.context.databaseUrl }), {
    message: /ended with code 1:\n.*STRIPE_SECRET_KEY is not set/u,
  });
  t.like(await send(t, withoutKey, null), { kind: "delayed", cause: "misconfigured" });
});

test("a process with the key of another account or mode sends nothing", async (t) => {
  await billingOf(t, await startStripeDouble(t, { secretKey: "sk_live_double" })).prepare();
  for (const options of [
    { secretKey: "sk_live_double", accountId: "acct_other" },
    { secretKey: "rk_test_double" },
  ]) {
    const other = await startStripeDouble(t, options);
    const billing = billingOf(t, other);
    await t.throwsAsync(billing.prepare(), {
      instanceOf: ProcessorMismatchError,
      message: /bills through the Stripe account acct_double \(live mode\)/u,
    });
    const { customerId } = other.control.addCustomer({});
    t.like(await send(t, billing, customerId), { kind: "delayed", cause: "misconfigured" });
    t.deepEqual(other.control.events(), []);
    t.false(other.control.calls().some(({ method }) => method === "POST"));
  }
});

test("the account of a restricted key is read from Stripe's refusal", async (t) => {
  const double = await startStripeDouble(t);
  const message =
    "The provided key does not have the required permissions for this endpoint on account 'acct_double'.";
  double.control.addFault(refusal(403, message, { method: "GET", path: "/v1/account" }));
  await billingOf(t, double).prepare();
  t.like((await readDeployment(t.context.db)).processor, { account: { id: "acct_double" } });
});

test("the first worker records its processor, which Stripe replaces if the ledger has no live usage", async (t) => {
  await billingOf(t, null).prepare();
  t.deepEqual((await readDeployment(t.context.db)).processor, { name: "ledger" });

  await billingOf(t, await startStripeDouble(t)).prepare();

  t.deepEqual((await readDeployment(t.context.db)).processor, {
    name: "stripe",
    account: { id: "acct_double", isLive: false },
  });
});

test("a deployment whose ledger has live usage takes Stripe's key only by decision", async (t) => {
  const ledger = billingOf(t, null);
  await ledger.prepare();
  t.is((await send(t, ledger, null)).kind, "done");
  await t.throwsAsync(billingOf(t, await startStripeDouble(t)).prepare(), {
    message: /"From the ledger to Stripe" in docs/u,
  });
});
