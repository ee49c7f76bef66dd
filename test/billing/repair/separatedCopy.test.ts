import test from "ava";
import { createBilling } from "../../../providers/billing/createBilling.ts";
import { releaseUsage } from "../../../services/billing/holdUsage.ts";
import { runReconciliation } from "../../../services/billing/reconciliation/runReconciliation.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { setUpRestore } from "./restoreSetup.ts";

test("a separated copy without a Stripe key reconciles its own usage, and not what the original sent", async (t) => {
  const scene = await setUpRestore(t);
  await scene.register(scene.original, 3);
  scene.pass(5);
  t.is((await scene.drain(scene.original)).kind, "done");
  const { restored: copy } = await scene.fork(scene.original);
  scene.pass(3600);
  const withoutKey = (...args: readonly string[]) =>
    runImpact(args, { env: { DATABASE_URL: copy.url }, clock: copy.deps.clock });
  const reconcileAtNight = () =>
    runReconciliation(
      { ...copy.deps, billing: createBilling({ db: copy.db, stripe: null }) },
      { id: crypto.randomUUID(), isFinal: true },
      new AbortController().signal,
    );
  const undecided = await reconcileAtNight();
  t.regex(undecided.drifting[0]?.error ?? "", /STRIPE_SECRET_KEY is not set here/u);

  t.is((await withoutKey("deployment", "separate", "--as", "maria")).exitCode, 0);

  t.deepEqual(await reconcileAtNight(), { streams: [], drifting: [] });
  const last = await withoutKey("usage", "reconcile", "--last");
  t.is(last.exitCode, 0, last.stderr);
  const run = await withoutKey("usage", "reconcile");
  t.is(run.exitCode, 0, run.stderr);
  t.regex(
    run.stderr,
    /Usage at Stripe was compared only after .*: earlier usage was sent by the deployment/u,
  );
  // Later usage at Stripe is the copy's own.
  await releaseUsage(copy.deps, "maria");
  scene.pass(60);
  await scene.register(copy, 4);
  scene.pass(5);
  t.is((await scene.drain(copy)).kind, "done");
  scene.pass(3600);
  const failed = await withoutKey("usage", "reconcile");
  t.is(failed.exitCode, 1);
  t.regex(failed.stderr, /could not be compared: its usage is Stripe's, and STRIPE_SECRET_KEY/u);
  const compared = await scene.impact(copy, "usage", "reconcile");
  t.is(compared.exitCode, 0, compared.stderr);
  t.regex(compared.stdout, /stripe +cus_\w+ +4 +4 +0/u);
});
