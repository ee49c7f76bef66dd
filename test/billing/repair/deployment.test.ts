import type { ExecutionContext } from "ava";
import { z } from "zod";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import {
  countFailedProcessorEvents,
  insertProcessorEvent,
} from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import type { Billing } from "../../../modules/billing/createBilling.ts";
import { ProcessorMismatchError } from "../../../modules/billing/processor.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { releaseUsage } from "../../../modules/billing/holdUsage.ts";
import { processProcessorEvents } from "../../../modules/billing/processorEvents/processProcessorEvents.ts";
import { runReconciliation } from "../../../modules/billing/reconciliation/runReconciliation.ts";
import { drainUsage } from "../drainUsage.ts";
import type { DrainResult } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import type { StripeDouble, StripeDoubleOptions } from "../../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { startProgram, TEMPORAL_ADDRESS } from "../../support/programs.ts";
import { setUpBilling } from "../billingSetup.ts";
import { setUpRestore } from "./restoreSetup.ts";

const test = testWithDatabase();

test.serial.beforeEach(async (t) => {
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE deployment
    SET processor = NULL, stripe_account_id = NULL, stripe_livemode = NULL
  `);
  await t.context.db.query(sql.typeAlias("void")`DELETE FROM ledger_usage`);
});

type T = ExecutionContext<DatabaseContext>;

const startDouble = async (t: T, options: StripeDoubleOptions = {}): Promise<StripeDouble> => {
  const double = await startStripeDouble(options);
  t.teardown(double.close);
  return double;
};

const billingOf = (t: T, double: StripeDouble | null): Billing =>
  createBilling({
    db: t.context.db,
    stripe: double && connectStripe({ secretKey: double.secretKey, apiBase: double.url }),
  });

const impactWith = (t: T, double: StripeDouble | null, ...args: readonly string[]): Promise<Run> =>
  runImpact(args, {
    env: {
      DATABASE_URL: t.context.databaseUrl,
      TEMPORAL_ADDRESS,
      ...(double && { STRIPE_SECRET_KEY: double.secretKey, STRIPE_API_BASE: double.url }),
    },
  });

/** Old enough to be sealed immediately. */
const past = { now: () => new Date(Date.now() - 10_000) };

const register = async (t: T, accountId: string, count: number): Promise<void> => {
  const writer = createRegistrationWriter({ db: t.context.db, clock: past });
  await writer.register(registrationOf(accountId, { count }));
};

const drain = (t: T, billing: Billing, accountId: string): Promise<DrainResult> =>
  drainUsage(
    { db: t.context.db, clock: systemClock, billing },
    { accountId, mode: "live", kind: "tree" },
    { signal: new AbortController().signal, onResult: () => undefined },
  );

const sumLedger = async (t: T, accountId: string): Promise<number> =>
  Number(
    await t.context.db.oneFirst(sql.type(z.strictObject({ sum: z.bigint() }))`
      SELECT coalesce(sum(quantity), 0)::bigint AS sum
      FROM ledger_usage
      WHERE account_id = ${accountId}
    `),
  );

test.serial("the first worker records its processor and account", async (t) => {
  const double = await startDouble(t);
  await billingOf(t, double).prepare();

  t.deepEqual((await readDeployment(t.context.db)).processor, {
    name: "stripe",
    account: { id: "acct_double", isLive: false },
  });
  const shown = await impactWith(t, null, "deployment", "show", "--json");
  t.like(readJson(shown), { processor: "stripe", stripe_account_id: "acct_double" });
});

test.serial("a process without the key does not bill a deployment on Stripe", async (t) => {
  await billingOf(t, await startDouble(t)).prepare();
  const withoutKey = billingOf(t, null);

  await t.throwsAsync(withoutKey.prepare(), {
    instanceOf: ProcessorMismatchError,
    message: /acct_double \(test mode\), but STRIPE_SECRET_KEY is not set\. Set it/u,
  });
  await t.throwsAsync(startProgram(t, "worker/main.ts", { DATABASE_URL: t.context.databaseUrl }), {
    message: /ended with code 1 before it was ready/u,
  });
  const { id } = await createTestOrganization(t.context.db);
  await register(t, id, 3);
  t.like(await drain(t, withoutKey, id), { kind: "delayed", cause: "misconfigured" });
  t.is(await sumLedger(t, id), 0);
  const doctor = await impactWith(t, null, "doctor");
  t.regex(doctor.stdout, /billing processor +wrong +This deployment bills through/u);
});

test.serial("a process with the key of another account or mode sends nothing", async (t) => {
  const live = await startDouble(t, { secretKey: "sk_live_double" });
  await billingOf(t, live).prepare();
  const others = [
    await startDouble(t, { secretKey: "sk_live_double", accountId: "acct_other" }),
    await startDouble(t, { secretKey: "rk_test_double" }),
  ];
  for (const other of others) {
    const billing = billingOf(t, other);
    await t.throwsAsync(billing.prepare(), {
      instanceOf: ProcessorMismatchError,
      message: /bills through the Stripe account acct_double \(live mode\)/u,
    });
    const { customerId } = other.control.addCustomer({});
    const { id } = await createTestOrganization(t.context.db, { stripeCustomerId: customerId });
    await register(t, id, 3);
    t.like(await drain(t, billing, id), { kind: "delayed", cause: "misconfigured" });
    t.deepEqual(other.control.events(), []);
    t.false(other.control.calls().some(({ method }) => method === "POST"));
    const doctor = await impactWith(t, other, "doctor");
    t.regex(doctor.stdout, /billing processor +wrong/u);
  }
});

test.serial("the account of a restricted key is read from Stripe's refusal", async (t) => {
  const double = await startDouble(t);
  double.control.addFault({
    kind: "respond",
    method: "GET",
    path: "/v1/account",
    status: 403,
    body: {
      error: {
        type: "invalid_request_error",
        message:
          "The provided key does not have the required permissions for this endpoint on account 'acct_double'.",
      },
    },
  });
  await billingOf(t, double).prepare();

  t.like((await readDeployment(t.context.db)).processor, { account: { id: "acct_double" } });
});

test.serial("a deployment whose ledger has no live usage takes Stripe's key", async (t) => {
  await billingOf(t, null).prepare();
  t.deepEqual((await readDeployment(t.context.db)).processor, { name: "ledger" });
  const double = await startDouble(t);
  const doctor = await impactWith(t, double, "doctor");
  t.regex(doctor.stdout, /billing processor +ok +the next worker that starts records its own/u);

  await billingOf(t, double).prepare();

  t.like((await readDeployment(t.context.db)).processor, { name: "stripe" });
});

test.serial("move-to-stripe moves the current cycle's usage once", async (t) => {
  const { db } = t.context;
  const ledger = billingOf(t, null);
  await ledger.prepare();
  const moved = await createTestOrganization(db);
  const staying = await createTestOrganization(db);
  for (const { id } of [moved, staying]) {
    await register(t, id, 5);
    await drain(t, ledger, id);
  }
  const double = await startDouble(t);
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  const run = (...args: readonly string[]): Promise<Run> => impactWith(t, double, ...args);
  await run(
    "org",
    "update",
    moved.id,
    "--stripe-customer",
    customerId,
    "--stripe-subscription",
    subscriptionId,
  );
  const stripe = billingOf(t, double);
  await t.throwsAsync(stripe.prepare(), { message: /impact deployment move-to-stripe/u });

  const dryRun = await run("deployment", "move-to-stripe", "--dry-run", "--json");
  t.is(dryRun.exitCode, 0, dryRun.stderr);
  t.like(readJson(dryRun), { dry_run: true, usage: [{ account_id: moved.id, quantity: 5 }] });
  t.is(await sumLedger(t, moved.id), 5);

  const move = await run("deployment", "move-to-stripe", "--as", "maria");
  t.is(move.exitCode, 0, move.stderr);
  await stripe.prepare();
  await drain(t, stripe, moved.id);
  const repeated = await run("deployment", "move-to-stripe", "--json");
  t.like(readJson(repeated), { repeated: true, usage: [] });
  await drain(t, stripe, moved.id);

  t.deepEqual(
    double.control.usage({ customerId }).map(({ value }) => value),
    [5],
  );
  t.is(await sumLedger(t, moved.id), 0);
  t.is(await sumLedger(t, staying.id), 5);
  t.is((await readDeployment(db)).processorRecordedBy, "maria");
  const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1000).toISOString();
  for (const { id } of [moved, staying]) {
    const reconciled = await run("usage", "reconcile", "--org", id, "--until", tomorrow);
    t.is(reconciled.exitCode, 0, reconciled.stdout);
  }
});

test.serial(
  "a separated copy without a Stripe key reconciles its own usage, and not what the original sent",
  async (t) => {
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
    const last = await withoutKey("usage", "show-reconciliation");
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
    t.is(failed.exitCode, 4);
    t.regex(failed.stderr, /could not be compared: STRIPE_SECRET_KEY is not set here/u);
    const compared = await scene.impact(copy, "usage", "reconcile");
    t.is(compared.exitCode, 0, compared.stderr);
    t.regex(compared.stdout, /stripe +cus_\w+ +4 +4 +0/u);
  },
);

test.serial("held usage cannot be held for another reason or by another operator", async (t) => {
  const run = (...args: readonly string[]) => impactWith(t, null, ...args);
  const hold = (reason: string, as: string) =>
    run("usage", "hold", "--reason", reason, "--as", as, "--json");
  await run("usage", "release");
  const first = await hold("maintenance", "ada");
  t.is(first.exitCode, 0, first.stderr);
  for (const other of [await hold("restore", "bob"), await hold("restore", "ada")]) {
    t.is(other.exitCode, 1);
    t.is(other.stdout, "");
    t.regex(other.stderr, /usage is held by ada: maintenance\. It began at \d{4}-/u);
  }
  const again = await hold("maintenance", "ada");
  t.is(again.exitCode, 0, again.stderr);
  t.deepEqual(readJson(again), readJson(first));
  const entries = readJson(await run("audit", "list", "--action", "usage.hold", "--json"));
  t.is(z.array(z.object({ reason: z.literal("maintenance") })).parse(entries).length, 1);
  t.regex((await run("usage", "release", "--as", "ada")).stdout, /Released the hold of ada/u);
});

test.serial("a failed event is retried, and discarded, and then counts no more", async (t) => {
  const { deps } = await setUpBilling(t);
  const run = (...args: readonly string[]) =>
    runImpact(["deployment", ...args], {
      env: { DATABASE_URL: t.context.databaseUrl },
      clock: deps.clock,
    });
  const process = () =>
    processProcessorEvents(
      { ...deps, observeRejection: () => undefined, observeFailedEvent: () => undefined },
      new AbortController().signal,
    );
  const stateOf = (): Promise<string> =>
    deps.db.oneFirst(sql.type(z.strictObject({ state: z.string() }))`
      SELECT state FROM processor_event WHERE id = 'evt_7'
    `);
  const now = deps.clock.now();
  const type = "v1.billing.meter.error_report_triggered";
  await insertProcessorEvent(deps.db, { id: "evt_7", type, objectId: null, createdAt: now }, now);
  const early = await run("discard-event", "evt_7", "--reason", "settled");
  t.is(early.exitCode, 1);
  t.regex(early.stderr, /evt_7 is pending: only failed events/u);
  await process();
  t.regex((await run("list-events")).stdout, /evt_7 +failed .*does not have the event evt_7/u);
  t.is(await countFailedProcessorEvents(deps.db), 1);

  t.is((await run("retry-event", "evt_7")).exitCode, 0);
  t.is(await stateOf(), "pending");
  await process();
  t.is(await stateOf(), "failed", "Stripe still does not have it");

  t.is((await run("discard-event", "evt_7", "--reason", "settled")).exitCode, 0);
  const again = await run("discard-event", "evt_7", "--reason", "settled");
  t.is(again.exitCode, 0);
  t.regex(again.stderr, /was already discarded/u);
  t.is(await stateOf(), "discarded");
  t.is(await countFailedProcessorEvents(deps.db), 0);
  t.is((await run("retry-event", "evt_none")).exitCode, 3);
});

test.serial("an event whose last attempt a stopping worker interrupts is not failed", async (t) => {
  const { deps, pass } = await setUpBilling(t);
  const now = deps.clock.now();
  const type = "v1.billing.meter.error_report_triggered";
  await insertProcessorEvent(deps.db, { id: "evt_8", type, objectId: null, createdAt: now }, now);
  pass(8 * 24 * 60 * 60);
  const stop = new AbortController();
  const stripe = deps.billing.findProcessor("stripe", "live");
  const billing: Billing = {
    ...deps.billing,
    findProcessor: () =>
      stripe && {
        ...stripe,
        readRejectionReport: (id, signal) => {
          stop.abort();
          return stripe.readRejectionReport(id, signal);
        },
      },
  };
  const observers = { observeRejection: () => undefined, observeFailedEvent: () => undefined };

  await t.throwsAsync(processProcessorEvents({ ...deps, billing, ...observers }, stop.signal), {
    name: "AbortError",
  });

  t.is(await countFailedProcessorEvents(deps.db), 0);
});
