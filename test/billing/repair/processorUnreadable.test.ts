import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { UnavailableError } from "../../../domain/errors.ts";
import { createBilling } from "../../../providers/billing/createBilling.ts";
import { connectStripe } from "../../../providers/billing/stripe/connectStripe.ts";
import { holdUsage } from "../../../services/billing/holdUsage.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const LAG_SECONDS = 16 * 60;
const RESTORED_AT = new Date(NOON * 1000).toISOString();

/** Creates a deployment with a minute that is delivered and another that is pending. */
const setUp = async (t: ExecutionContext) => {
  const scene = await setUpRestore(t);
  const { double, original, register, drain, pass } = scene;
  const registrationId = await register(original, 3);
  pass(60);
  await drain(original);
  await register(original, 2);
  pass(LAG_SECONDS);
  return {
    ...scene,
    registrationId,
    whileStripeIsDown: (...args: readonly string[]): Promise<Run> =>
      runImpact(args, {
        env: {
          DATABASE_URL: original.url,
          STRIPE_SECRET_KEY: double.secretKey,
          STRIPE_API_BASE: "http://127.0.0.1:1",
        },
        clock: original.deps.clock,
      }),
  };
};

test("commands that read Stripe exit with 4 while it is down", async (t) => {
  const { original, stream, registrationId, pass, whileStripeIsDown } = await setUp(t);

  const compared = await whileStripeIsDown("usage", "reconcile");
  t.is(compared.exitCode, 4, compared.stderr);
  t.regex(compared.stderr, /1 of 1 stream.*0 differ at the processor, 1 could not be compared/u);
  for (const args of [
    ["usage", "settle", "--restored-at", RESTORED_AT, "--dry-run"],
    ["deployment", "move-to-stripe", "--dry-run"],
    ["refund", "registration", registrationId, "--reason", "wrong order"],
    ["statement", "--org", stream.accountId, "--period", "current"],
  ]) {
    const run = await whileStripeIsDown(...args);
    t.is(run.exitCode, 4, run.stderr);
  }
  await holdUsage(original.deps, { reason: "restore", by: "maria" });
  pass(LAG_SECONDS);
  const settled = await whileStripeIsDown("usage", "reconcile", "--after-restore");
  t.is(settled.exitCode, 4, settled.stderr);
});

/** Returns what doctor finds about the last reconciliation. */
const findReconciliation = (run: Run) => {
  const findings = z
    .array(z.object({ check: z.string(), status: z.string(), detail: z.string() }))
    .parse(readJson(run));
  return findings.find(({ check }) => check === "reconciliation");
};

test("a customer that Stripe does not report is a warning of doctor, and fails the comparison", async (t) => {
  const { original, control, customerId, impact } = await setUp(t);
  control.deleteCustomer({ customerId });

  const compared = await impact(original, "usage", "reconcile");
  t.is(compared.exitCode, 1);
  t.regex(compared.stderr, /0 differ at the processor, 1 could not be compared/u);
  const finding = findReconciliation(await impact(original, "doctor", "--json"));
  t.is(finding?.status, "warning");
  t.regex(finding?.detail ?? "", /1 stream could not be read.*impact usage reconcile --last/u);
});

test("streams that a failed reconciliation could not read are wrong for doctor, because it hides drift", async (t) => {
  const { original, impact, reportElsewhere, whileStripeIsDown } = await setUp(t);
  await reportElsewhere(100, NOON);
  const compared = await impact(original, "usage", "reconcile");
  t.is(compared.exitCode, 1);
  t.is((await whileStripeIsDown("usage", "reconcile")).exitCode, 4);

  const run = await impact(original, "doctor", "--json");

  const finding = findReconciliation(run);
  t.is(finding?.status, "wrong");
  t.regex(finding?.detail ?? "", /1 stream could not be read.*impact usage reconcile --last/u);
});

test("a refund is unavailable while the deployment bills through another Stripe account", async (t) => {
  const { double, original, registrationId, refund } = await setUp(t);
  await original.db.query(sql.typeAlias("void")`
    UPDATE deployment SET stripe_account_id = 'acct_other'
  `);
  const stripe = connectStripe({ secretKey: double.secretKey, apiBase: double.url });
  const deps = { ...original.deps, billing: createBilling({ db: original.db, stripe }) };

  const error = await t.throwsAsync(refund({ ...original, deps }, registrationId, 1), {
    instanceOf: UnavailableError,
  });

  t.regex(String(error?.cause), /bills through the Stripe account acct_other/u);
});
