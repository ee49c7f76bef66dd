import test from "ava";
import { openPool } from "../../../db/pool.ts";
import { createBilling } from "../../../providers/billing/createBilling.ts";
import { guardUsage } from "../../../services/billing/holdUsage.ts";
import { drainUsage } from "../../../services/billing/sending/drainUsage.ts";
import { createRegistrationWriter } from "../../../services/registrations/createRegistrationWriter.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { copyDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";

const NOON = Date.UTC(2026, 4, 15, 12);

test("after a restore of a deployment that the built-in ledger bills, usage is settled at once and billed once", async (t) => {
  let nowMs = NOON;
  const clock = { now: () => new Date(nowMs) };
  const open = async (url: string) => {
    const db = await openPool(url);
    t.teardown(() => db.end());
    return { db, clock, billing: createBilling({ db, stripe: null }) };
  };
  const url = await copyDatabase(t);
  const original = await openPool(url);
  const { id: accountId } = await createTestOrganization(original, { clock });
  await guardUsage({ db: original, clock });
  await createBilling({ db: original, stripe: null }).prepare();
  await createRegistrationWriter({ db: original, clock }).register(
    registrationOf(accountId, { count: 3 }),
  );
  await original.end();
  const restoredUrl = await copyDatabase(t, url);
  const restored = await open(restoredUrl);
  nowMs += 5000;
  await guardUsage(restored);
  const afterRestore = ["usage", "reconcile", "--after-restore"];
  const double = await startStripeDouble();
  t.teardown(double.close);
  const stripe = { STRIPE_SECRET_KEY: double.secretKey, STRIPE_API_BASE: double.url };

  // With a key, the lost history may have been billed at Stripe.
  const withKey = await runImpact(afterRestore, {
    env: { DATABASE_URL: restoredUrl, ...stripe },
    clock,
  });
  t.is(withKey.exitCode, 1);
  t.regex(withKey.stderr, /may lag until/u);
  const run = await runImpact(afterRestore, { env: { DATABASE_URL: restoredUrl }, clock });

  t.is(run.exitCode, 0, run.stderr);
  const stream = { accountId, mode: "live", meter: "tree" } as const;
  const drained = await drainUsage(restored, stream, {
    signal: new AbortController().signal,
    onResult: () => undefined,
  });
  t.is(drained.kind, "done");
  const reconciled = await runImpact(["usage", "reconcile", "--json"], {
    env: { DATABASE_URL: restoredUrl },
    clock: { now: () => new Date(nowMs + 3_600_000) },
  });
  t.is(reconciled.exitCode, 0, reconciled.stderr);
  t.regex(reconciled.stdout, /"delivered": 3,\s+"processor_quantity": 3/u);
});
