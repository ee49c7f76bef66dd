import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { UnavailableError } from "../../../runtime/errors.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { holdUsage, releaseUsage } from "../../../modules/billing/holdUsage.ts";
import { diagnose } from "../../cli/diagnose.ts";
import { runImpact } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const LAG_SECONDS = 16 * 60;
const RESTORED_AT = new Date(NOON * 1000).toISOString();

/** Runs a command that cannot use Stripe. */
type Unusable = (...args: readonly string[]) => Promise<Run>;

/** Creates a deployment with a minute that is delivered and another that is pending. */
const setUp = async (t: ExecutionContext) => {
  const scene = await setUpRestore(t);
  const { double, original, register, drain, pass } = scene;
  const registrationId = await register(original, 3);
  pass(60);
  await drain(original);
  await register(original, 2);
  pass(LAG_SECONDS);
  const runWith =
    (env: Readonly<Record<string, string>>): Unusable =>
    (...args) =>
      runImpact(args, {
        env: { DATABASE_URL: original.url, ...env },
        clock: original.deps.clock,
      });
  const whileStripeIsDown = runWith({
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: "http://127.0.0.1:1",
  });
  return {
    ...scene,
    registrationId,
    whileStripeIsDown,
    unusable: {
      "Stripe is down": whileStripeIsDown,
      "the key is missing": runWith({}),
      "the key is not accepted": runWith({
        STRIPE_SECRET_KEY: "sk_test_revoked",
        STRIPE_API_BASE: double.url,
      }),
    },
    /** Makes the key one of another account than the deployment bills through. */
    moveAway: () =>
      original.db.query(sql.typeAlias("void")`
        UPDATE deployment SET stripe_account_id = 'acct_other'
      `),
  };
};

test("commands that read Stripe exit with 4 while it cannot be used", async (t) => {
  const scene = await setUp(t);
  const { original, stream, registrationId, drain, register, pass, unusable, impact } = scene;
  await drain(original);
  const eventId = await original.db.oneFirst(sql.type(z.strictObject({ id: z.bigint() }))`
    UPDATE meter_event
    SET state = 'blocked', outcome_unknown = true
    WHERE id = (SELECT max(id) FROM meter_event)
    RETURNING id
  `);
  await register(original, 2);
  const differing: string[] = [];
  const check = async (run: Unusable, reason: string, ...args: readonly string[]) => {
    const { exitCode, stderr } = await run(...args);
    if (exitCode !== 4) {
      differing.push(`${args.join(" ")}, ${reason}: ${exitCode}, ${stderr}`);
    }
    return stderr;
  };
  const checkAll = async (run: Unusable, reason: string) => {
    await check(run, reason, "usage", "correct", "--restored-at", RESTORED_AT, "--dry-run");
    await check(run, reason, "usage", "retry", String(eventId));
    await check(run, reason, "refund", "registration", registrationId, "--reason", "wrong order");
    await check(run, reason, "statement", "--org", stream.accountId, "--period", "current");
    await check(run, reason, "statement", "--org", stream.accountId, "--period", "2026-05");
    const compared = await check(run, reason, "usage", "reconcile");
    t.regex(compared, /1 of 1 stream.*0 differ at the processor, 1 could not be compared/u);
  };

  for (const [reason, run] of Object.entries(unusable)) {
    await checkAll(run, reason);
  }
  for (const reason of ["Stripe is down", "the key is not accepted"] as const) {
    await check(unusable[reason], reason, "deployment", "move-to-stripe", "--dry-run");
  }
  await holdUsage(original.deps, { reason: "restore", by: "maria" });
  pass(LAG_SECONDS);
  for (const [reason, run] of Object.entries(unusable)) {
    await check(run, reason, "usage", "compare-and-release");
  }
  await releaseUsage(original.deps, "maria");
  await scene.moveAway();
  await checkAll((...args) => impact(original, ...args), "the key is of another account");

  t.deepEqual(differing, []);
  const partly = await scene.whileStripeIsDown("usage", "retry", String(eventId), "999999");
  t.is(partly.exitCode, 1, "the second is unknown");
});

/** Returns what doctor finds about the last reconciliation. */
const findReconciliation = async (impact: (...args: readonly string[]) => Promise<Run>) =>
  (await diagnose(impact)).find("reconciliation");

test("a customer that Stripe does not report is a warning of doctor, and fails the comparison", async (t) => {
  const { original, control, customerId, impact } = await setUp(t);
  control.deleteCustomer({ customerId });

  const compared = await impact(original, "usage", "reconcile");
  t.is(compared.exitCode, 1);
  t.regex(compared.stderr, /0 differ at the processor, 1 could not be compared/u);
  const finding = await findReconciliation((...args) => impact(original, ...args));
  t.is(finding?.status, "warning");
  t.regex(finding?.detail ?? "", /1 stream could not be read.*impact usage show-reconciliation/u);
});

test("streams that a failed reconciliation could not read are wrong for doctor, because it hides drift", async (t) => {
  const { original, impact, reportElsewhere, whileStripeIsDown } = await setUp(t);
  await reportElsewhere(100, NOON);
  const compared = await impact(original, "usage", "reconcile");
  t.is(compared.exitCode, 1);
  t.is((await whileStripeIsDown("usage", "reconcile")).exitCode, 4);

  const finding = await findReconciliation((...args) => impact(original, ...args));

  t.is(finding?.status, "wrong");
  t.regex(finding?.detail ?? "", /1 stream could not be read.*impact usage show-reconciliation/u);
});

test("a refund is unavailable while the deployment bills through another Stripe account", async (t) => {
  const { double, original, registrationId, refund, moveAway } = await setUp(t);
  await moveAway();
  const stripe = connectStripe({ secretKey: double.secretKey, apiBase: double.url });
  const deps = { ...original.deps, billing: createBilling({ db: original.db, stripe }) };

  const error = await t.throwsAsync(refund({ ...original, deps }, registrationId, 1), {
    instanceOf: UnavailableError,
  });

  t.regex(String(error?.cause), /bills through the Stripe account acct_other/u);
});
