import test from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { guardUsage, holdUsage, releaseUsage } from "../../../modules/billing/holdUsage.ts";
import { drainUsage, sealMeterEvent, sendMeterEvent } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { copyDatabase, openTestPool } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { listAllWaitingRefunds } from "../../support/listAllWaitingRefunds.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const DAY = 24 * 60 * 60;
const COMPARE_AND_RELEASE = ["usage", "compare-and-release"] as const;

test("a copied database sends nothing until an operator releases it", async (t) => {
  const scene = await setUpRestore(t);
  await scene.register(scene.original, 3);
  const { continued, restored } = await scene.fork(scene.original);
  scene.pass(5);

  t.like(await scene.drain(restored), { kind: "delayed", cause: "held" });
  t.deepEqual(scene.billed(), {});
  const listed = await scene.impact(restored, "usage", "list");
  t.regex(listed.stderr, /held by restore guard: the database was restored, promoted or copied/u);
  const shown = await scene.impact(restored, "deployment", "show", "--json");
  t.like(readJson(shown), { server_changed: true });
  t.is((await scene.drain(continued)).kind, "done");

  const released = await scene.impact(restored, "usage", "release", "--as", "maria");
  t.is(released.exitCode, 0, released.stderr);
  // Stripe replays the response to the original's event.
  t.like(await scene.drain(restored), { kind: "delayed", cause: "in_doubt" });
  scene.pass(16 * 60);
  t.is((await scene.drain(restored)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 3 });
});

test("a hold stops an event that is already sealed", async (t) => {
  const { original, register, pass, stream, drain, billed } = await setUpRestore(t);
  await register(original, 3);
  pass(5);
  const sealing = await sealMeterEvent(original.deps, stream);
  const event = sealing.kind === "event" ? sealing.event : t.fail();

  await holdUsage(original.deps, { reason: "failover drill", by: "maria" });

  if (typeof event === "object") {
    t.like(await sendMeterEvent(original.deps, event.id, new AbortController().signal), {
      kind: "delayed",
    });
  }
  t.like(await drain(original), {
    cause: "held",
    reason: "usage is held by maria: failover drill",
  });
  t.deepEqual(billed(), {});
  await releaseUsage(original.deps, "maria");
  t.is((await drain(original)).kind, "done");
  t.deepEqual(billed(), { 0: 3 });
});

test("after a restore to three days earlier, nothing doubles and nothing is lost", async (t) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass } = scene;
  const refunded = await register(scene.original, 10);
  pass(5);
  await drain(scene.original);
  // Sent in the lost history: seconds 5 and 6, and the refund.
  await register(scene.original, 20);
  pass(1);
  await register(scene.original, 4);
  await refund(scene.original, refunded, 1);
  pass(1);
  const neverSent = await register(scene.original, 8);
  const { continued, restored } = await scene.fork(scene.original);

  // Second 7 is refunded in the lost history before it is sent.
  await refund(continued, neverSent, 8);
  pass(60);
  await drain(continued);
  await register(continued, 7);
  pass(5);
  await drain(continued);
  t.deepEqual(scene.billed(), { 0: 9, 5: 20, 6: 4, 67: 7 });
  pass(3 * DAY);

  await guardUsage(restored.deps);
  await register(restored, 2);
  const early = await scene.impact(restored, ...COMPARE_AND_RELEASE);
  t.is(early.exitCode, 1);
  t.regex(early.stderr, /may lag until/u);
  pass(16 * 60);
  const run = await scene.impact(restored, ...COMPARE_AND_RELEASE, "--json");
  t.is(run.exitCode, 0, run.stderr);
  t.is((await drain(restored)).kind, "done");

  t.deepEqual(
    Object.values(scene.billedByMinute()).toSorted((a, b) => a - b),
    [2, 7, 9 + 20 + 4 + 8],
  );
});

test("a standby that lost the last second sends only what Stripe lacks", async (t) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass } = scene;
  await register(scene.original, 52);
  const { continued, restored } = await scene.fork(scene.original);
  await register(continued, 24);
  pass(5);
  await drain(continued);
  t.deepEqual(scene.billed(), { 0: 76 });

  await guardUsage(restored.deps);
  pass(16 * 60);
  const run = await scene.impact(restored, ...COMPARE_AND_RELEASE);
  t.is(run.exitCode, 0, run.stderr);
  t.is((await drain(restored)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 76 });
});

test("usage and its later refund are distinguished", async (t) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass } = scene;
  const id = await register(scene.original, 5);
  const { continued, restored } = await scene.fork(scene.original);
  pass(5);
  await drain(continued);
  t.deepEqual(scene.billed(), { 0: 5 });

  await guardUsage(restored.deps);
  await refund(restored, id, 5);
  await restored.db.query(sql.typeAlias("void")`UPDATE refund SET dispatched_at = now()`);
  pass(16 * 60);
  await scene.impact(restored, ...COMPARE_AND_RELEASE);
  // Its workflow may have failed while the refund was blocked.
  t.like(await listAllWaitingRefunds(restored.db), [{ registrationId: id }]);
  t.is((await drain(restored)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 0 });
});

/** Of 15 sealed units, 4 are refunded. 11: Stripe got the refund, too. */
for (const sent of [0, 6, 11, 15]) {
  test(`sealed usage and its refund are billed once after a restore if Stripe has ${sent} of 15 units`, async (t) => {
    const scene = await setUpRestore(t);
    const { register, pass } = scene;
    const refunded = await register(scene.original, 10);
    await register(scene.original, 5);
    pass(5);
    t.is((await sealMeterEvent(scene.original.deps, scene.stream)).kind, "event");
    const { restored } = await scene.fork(scene.original);
    await scene.reportElsewhere(sent, NOON);

    await guardUsage(restored.deps);
    await scene.refund(restored, refunded, 4);
    await restored.db.query(sql.typeAlias("void")`UPDATE refund SET dispatched_at = now()`);
    pass(16 * 60);
    const run = await scene.impact(restored, ...COMPARE_AND_RELEASE);
    t.is(run.exitCode, 0, run.stderr);
    // Its workflow may have ended while the refund was held.
    t.like(await listAllWaitingRefunds(restored.db), [{ registrationId: refunded }]);
    t.is((await scene.drain(restored)).kind, "done");

    t.deepEqual(scene.billedByMinute(), { 0: 11 });
  });
}

test("a refund between a run that broke off and the next one is billed", async (t) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass, impact, control } = scene;
  const refunded = await register(scene.original, 10);
  const { restored } = await scene.fork(scene.original);
  await guardUsage(restored.deps);
  pass(16 * 60);
  control.addFault({
    kind: "server_error",
    method: "GET",
    path: `/v1/billing/meters/${control.meterIds().tree}/event_summaries`,
    times: 1000,
  });
  t.not((await impact(restored, ...COMPARE_AND_RELEASE)).exitCode, 0);
  control.clearFaults();

  await refund(restored, refunded, 4);
  const repeated = await impact(restored, ...COMPARE_AND_RELEASE);

  t.is(repeated.exitCode, 0, repeated.stderr);
  t.is((await drain(restored)).kind, "done");
  t.deepEqual(scene.billedByMinute(), { 0: 6 });
});

const doubts = z.array(
  z.object({
    meter_event_id: z.int().nullable(),
    at: z.iso.datetime(),
    quantity: z.int(),
    processor_quantity: z.int().nullable(),
    result: z.string(),
  }),
);

/**
 * A restore after which each side has what the other lacks. By minute: 0 is delivered on both sides; 1 was sent in the lost
 * history; 2 too, with more units than the database has; 3 was registered in the lost history only; 4 only in the restored
 * database; in 1, a refund was sent as well.
 */
const setUpDiverged = async (t: Parameters<typeof setUpRestore>[0]) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass } = scene;
  await register(scene.original, 1);
  pass(60);
  await drain(scene.original);
  const refunded = await register(scene.original, 10);
  pass(1);
  await register(scene.original, 20);
  await refund(scene.original, refunded, 4);
  pass(59);
  await register(scene.original, 100);
  const { continued, restored } = await scene.fork(scene.original);
  await register(continued, 50);
  pass(60);
  await register(continued, 1000);
  pass(60);
  await drain(continued);
  await register(restored, 2000);
  pass(5);
  await guardUsage(restored.deps);
  pass(16 * 60);
  const sumCalls = () =>
    scene.control.calls().filter(({ path }) => path.endsWith("/event_summaries")).length;
  return {
    ...scene,
    restored,
    sumCalls,
    before: { 0: 1, 1: 26, 2: 150, 3: 1000 },
    after: { 0: 1, 1: 26, 2: 150, 3: 1000, 4: 2000 },
  };
};

test("after a restore, what only one side has is neither doubled nor lost, with one read of each minute's sum", async (t) => {
  const { impact, restored, drain, billedByMinute, sumCalls, before, after } =
    await setUpDiverged(t);
  t.deepEqual(billedByMinute(), before);
  const earlier = sumCalls();

  const run = await impact(restored, ...COMPARE_AND_RELEASE, "--json");

  t.is(run.exitCode, 0, run.stderr);
  t.is(sumCalls() - earlier, 3);
  t.deepEqual(
    doubts.parse(readJson(run)).map(({ quantity, result }) => [quantity, result]),
    [
      [10, "delivered"],
      [20, "partial"],
      [-4, "absent"],
      [100, "delivered"],
      [2000, "absent"],
    ],
  );
  await drain(restored);
  t.deepEqual(billedByMinute(), after);
});

test("a dry run shows the same results, changes nothing and keeps the hold", async (t) => {
  const { impact, restored, drain, billedByMinute, before, after } = await setUpDiverged(t);

  const first = await impact(restored, ...COMPARE_AND_RELEASE, "--dry-run", "--json");
  const second = await impact(restored, ...COMPARE_AND_RELEASE, "--dry-run", "--json");

  t.is(first.exitCode, 0, first.stderr);
  t.regex(first.stderr, /5 events are in doubt.* usage stays held/u);
  t.deepEqual(doubts.parse(readJson(second)), doubts.parse(readJson(first)));
  t.like(await drain(restored), { cause: "held" });
  const run = await impact(restored, ...COMPARE_AND_RELEASE, "--json");
  t.deepEqual(
    doubts.parse(readJson(run)).map(({ at, result }) => [at, result]),
    doubts.parse(readJson(first)).map(({ at, result }) => [at, result]),
  );
  t.deepEqual(billedByMinute(), before);
  await drain(restored);
  t.deepEqual(billedByMinute(), after);
});

for (const minute of [1, 2, 4]) {
  test(`a run that broke off at minute ${minute} is continued by the next one`, async (t) => {
    const { control, impact, restored, drain, billedByMinute, after } = await setUpDiverged(t);
    control.addFault({
      kind: "server_error",
      method: "GET",
      path: `/v1/billing/meters/${control.meterIds().tree}/event_summaries`,
      mentioning: String(NOON + minute * 60),
      times: 1000,
    });
    const broken = await impact(restored, ...COMPARE_AND_RELEASE);
    t.not(broken.exitCode, 0);
    t.like(await drain(restored), { cause: "held" });
    control.clearFaults();

    const repeated = await impact(restored, ...COMPARE_AND_RELEASE);

    t.is(repeated.exitCode, 0, repeated.stderr);
    await drain(restored);
    t.deepEqual(billedByMinute(), after);
    const third = await impact(restored, ...COMPARE_AND_RELEASE);
    t.is(third.exitCode, 1);
    t.regex(third.stderr, /usage is not held/u);
  });
}

test("with --since, older usage is not compared and is sent under its own identifier", async (t) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass, impact, control } = scene;
  await register(scene.original, 3);
  pass(DAY);
  await register(scene.original, 5);
  const { restored } = await scene.fork(scene.original);
  pass(5);
  await guardUsage(restored.deps);
  pass(16 * 60);
  const since = new Date((NOON + DAY) * 1000).toISOString();

  const run = await impact(restored, ...COMPARE_AND_RELEASE, "--since", since, "--json");

  t.deepEqual(
    doubts.parse(readJson(run)).map(({ quantity }) => quantity),
    [5],
  );
  await drain(restored);
  t.deepEqual(scene.billed(), { 0: 3, [DAY]: 5 });
  t.deepEqual(control.problems(), []);
});

test("the commands that reconcile reject each other's options", async (t) => {
  const { impact, original } = await setUpRestore(t);
  const dryRun = await impact(original, "usage", "reconcile", "--dry-run");
  t.is(dryRun.exitCode, 2);
  t.regex(dryRun.stderr, /unknown option '--dry-run'/u);
  const until = await impact(original, ...COMPARE_AND_RELEASE, "--until", "2026-05-01");
  t.is(until.exitCode, 2);
  t.regex(until.stderr, /unknown option '--until'/u);
  const since = await impact(original, "usage", "show-reconciliation", "--since", "2026-05-01");
  t.is(since.exitCode, 2);
  t.regex(since.stderr, /unknown option '--since'/u);
});

test("after a restore of a deployment that the built-in ledger bills, usage is settled immediately and billed once", async (t) => {
  let nowMs = NOON * 1000;
  const clock = { now: () => new Date(nowMs) };
  const open = async (url: string) => {
    const db = await openTestPool(t, url);
    return { db, clock, billing: createBilling({ db, stripe: null }) };
  };
  const url = await copyDatabase(t);
  const original = await openTestPool(t, url);
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
  const double = await startStripeDouble();
  t.teardown(double.close);
  const stripe = { STRIPE_SECRET_KEY: double.secretKey, STRIPE_API_BASE: double.url };

  // With a key, the lost history may have been billed at Stripe.
  const withKey = await runImpact(COMPARE_AND_RELEASE, {
    env: { DATABASE_URL: restoredUrl, ...stripe },
    clock,
  });
  t.is(withKey.exitCode, 1);
  t.regex(withKey.stderr, /may lag until/u);
  const run = await runImpact(COMPARE_AND_RELEASE, { env: { DATABASE_URL: restoredUrl }, clock });

  t.is(run.exitCode, 0, run.stderr);
  const stream = { accountId, mode: "live", kind: "tree" } as const;
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
