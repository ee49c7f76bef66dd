import test from "ava";
import type { ExecutionContext } from "ava";
import { Client } from "pg";
import { z } from "zod";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { guardUsage, holdUsage, releaseUsage } from "../../../modules/billing/holdUsage.ts";
import { settleAfterRestore } from "../../../modules/billing/reconciliation/settleAfterRestore.ts";
import { startLease } from "../../../modules/billing/sending/attemptLease.ts";
import { drainUsage } from "../drainUsage.ts";
import { sealMeterEvents } from "../../../modules/billing/sending/sealMeterEvents.ts";
import { finishSending } from "../../../modules/billing/sending/sendMeterEvent.ts";
import { createAttemptRecords } from "../../../modules/billing/sending/createAttemptRecords.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { copyDatabase, openTestPool } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { awaitBlocked } from "../../support/lockWaits.ts";
import { eventually } from "../../support/programs.ts";
import { NOON, setUpRestore, whileReadingSums } from "./restoreSetup.ts";

const DAY = 24 * 60 * 60;
const LAG_SECONDS = 16 * 60;
const COMPARE_AND_RELEASE = ["usage", "compare-and-release"] as const;
const UPGRADE = { reason: "upgrade", by: "maria" } as const;

/**
 * A database that is restored to a time inside a hold. Minutes 0 and 2 were registered before and during the hold; both
 * were sent in the history that was lost, after the hold was released.
 */
const setUpInsideHold = async (t: Parameters<typeof setUpRestore>[0]) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass } = scene;
  await register(scene.original, 3);
  pass(60);
  await holdUsage(scene.original.deps, UPGRADE);
  pass(60);
  await register(scene.original, 5);
  pass(LAG_SECONDS);
  const { continued, restored } = await scene.fork(scene.original);
  await releaseUsage(continued.deps, "maria");
  await drain(continued);
  const billed = { 0: 3, 2: 5 };
  t.deepEqual(scene.billedByMinute(), billed);
  return { ...scene, continued, restored, billed };
};

for (const [time, seconds] of [
  ["five seconds", 5],
  ["three days", 3 * DAY],
] as const) {
  for (const first of ["the guard", "take-over", "the comparison"]) {
    test(`a restore to a time inside a hold bills once if ${first} notices it ${time} after the release`, async (t) => {
      const { impact, restored, drain, pass, control, ...scene } = await setUpInsideHold(t);
      pass(seconds);
      const noticedAt = new Date(control.now() * 1000);

      if (first === "the guard") {
        await guardUsage(restored.deps);
      } else if (first === "take-over") {
        const taken = await impact(restored, "deployment", "take-over", "--json");
        t.like(readJson(taken), { usage_held: { ...UPGRADE, at: noticedAt.toISOString() } });
      }
      const early = await impact(restored, ...COMPARE_AND_RELEASE);
      t.is(early.exitCode, 1);
      t.regex(early.stderr, /may lag until/u);
      pass(LAG_SECONDS);
      // Workers check repeatedly, and operators repeat commands.
      await Promise.all([guardUsage(restored.deps), guardUsage(restored.deps)]);
      await impact(restored, "deployment", "take-over");
      t.deepEqual((await readDeployment(restored.db)).hold, { ...UPGRADE, at: noticedAt });
      const run = await impact(restored, ...COMPARE_AND_RELEASE);

      t.is(run.exitCode, 0, run.stderr);
      t.is((await drain(restored)).kind, "done");
      t.deepEqual(scene.billedByMinute(), scene.billed);
      const types = await restored.db.anyFirst(sql.type(z.strictObject({ type: z.string() }))`
        SELECT type FROM event WHERE type LIKE 'usage.%' ORDER BY type
      `);
      t.deepEqual(types, ["usage.failed", "usage.failed", "usage.recovered", "usage.recovered"]);
    });
  }
}

test("another hold is refused after a noticed restore with the advice to compare, not to release usage and hold it again", async (t) => {
  const { impact, restored } = await setUpInsideHold(t);
  await guardUsage(restored.deps);

  const refused = await impact(restored, "usage", "hold", "--reason", "restore");

  t.is(refused.exitCode, 1);
  t.regex(refused.stderr, /After a restore .*run `impact usage compare-and-release`/u);
  t.notRegex(refused.stderr, /hold it again/u);
});

test("the release after a planned promotion sends what was registered during the hold", async (t) => {
  const scene = await setUpRestore(t);
  await holdUsage(scene.original.deps, UPGRADE);
  await scene.register(scene.original, 5);
  const { restored: promoted } = await scene.fork(scene.original);
  scene.pass(60);
  await guardUsage(promoted.deps);

  const released = await scene.impact(promoted, "usage", "release");

  t.regex(released.stdout, /Released the hold of maria \(upgrade\)/u);
  t.is((await scene.drain(promoted)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 5 });
});

test("a comparison that broke off is continued after another restore", async (t) => {
  const scene = await setUpRestore(t);
  const { control, impact, drain, pass } = scene;
  await scene.register(scene.original, 3);
  pass(60);
  await scene.register(scene.original, 5);
  await holdUsage(scene.original.deps, UPGRADE);
  pass(LAG_SECONDS);
  control.addFault({
    kind: "server_error",
    method: "GET",
    path: `/v1/billing/meters/${control.meterIds().tree}/event_summaries`,
    mentioning: String(NOON + 60),
    times: 1000,
  });
  t.not((await impact(scene.original, ...COMPARE_AND_RELEASE)).exitCode, 0);
  control.clearFaults();
  const { restored } = await scene.fork(scene.original);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);

  const run = await impact(restored, ...COMPARE_AND_RELEASE);

  t.is(run.exitCode, 0, run.stderr);
  await drain(restored);
  t.deepEqual(scene.billedByMinute(), { 0: 3, 1: 5 });
});

test("a comparison settles nothing after another hold has begun", async (t) => {
  const { restored, drain, pass, billed, billedByMinute } = await setUpInsideHold(t);
  const { deps } = restored;
  await guardUsage(deps);
  pass(LAG_SECONDS);
  const billing = whileReadingSums(deps.billing, async () => {
    await releaseUsage(deps, "maria");
    pass(1);
    await holdUsage(deps, UPGRADE);
  });

  await t.throwsAsync(
    settleAfterRestore(
      { ...deps, billing },
      { operator: "maria", since: null, isDryRun: false },
      new AbortController().signal,
    ),
    { message: /the hold ended or restarted in the meantime/u },
  );

  t.like(await drain(restored), { cause: "held" });
  t.deepEqual(billedByMinute(), billed);
});

/** A deployment without Stripe that has registered 3 trees, which may be sealed. */
const setUpLedger = async (t: ExecutionContext) => {
  let nowMs = NOON * 1000;
  const clock = { now: () => new Date(nowMs) };
  const url = await copyDatabase(t);
  const db = await openTestPool(t, url);
  const deps = { db, clock, billing: createBilling({ db, stripe: null }), actor: SERVICE };
  const { id: accountId } = await createTestOrganization(db, { clock });
  const stream = { accountId, mode: "live", kind: "tree" } as const;
  await guardUsage(deps);
  await deps.billing.prepare();
  await createRegistrationWriter(deps).register(registrationOf(accountId, { count: 3 }));
  nowMs += 5000;
  return {
    url,
    deps,
    stream,
    pass: (seconds: number) => {
      nowMs += seconds * 1000;
    },
    settle: () => runImpact(COMPARE_AND_RELEASE, { env: { DATABASE_URL: url }, clock }),
    drain: () =>
      drainUsage(deps, stream, {
        signal: new AbortController().signal,
        onResult: () => undefined,
      }),
    listLedgerUnits: () =>
      db.anyFirst(sql.type(z.strictObject({ quantity: z.bigint() }))`
        SELECT quantity FROM ledger_usage WHERE account_id = ${accountId}
      `),
  };
};

test("a comparison waits for an attempt that begins in a transaction from before the hold, and the usage is billed once", async (t) => {
  const { deps, stream, pass, settle, drain, listLedgerUnits } = await setUpLedger(t);
  const isLocked = Promise.withResolvers<void>();
  const isSealing = Promise.withResolvers<void>();
  const blocker = deps.db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`SELECT FROM usage_fact FOR UPDATE`);
    isLocked.resolve();
    const sealing = await awaitBlocked(transaction);
    isSealing.resolve();
    // The comparison waits for the stream's lock.
    await eventually(() =>
      transaction.exists(sql.typeAlias("void")`
        SELECT
        FROM pg_locks
        WHERE NOT granted AND pg_blocking_pids(pid)::bigint[] && ${sql.array(sealing, "int8")}
      `),
    );
  });
  await isLocked.promise;
  const sealings = sealMeterEvents(deps, [{ ...stream, firstSecond: 0 }], startLease(deps));
  await isSealing.promise;
  await holdUsage(deps, UPGRADE);
  const early = await settle();
  await blocker;

  t.like((await sealings)[0], { kind: "event", event: { state: "sending" } });
  t.is(early.exitCode, 1);
  t.regex(early.stderr, /a call to the processor may be in progress/u);
  pass(16);
  const run = await settle();
  t.is(run.exitCode, 0, run.stderr);
  t.is((await drain()).kind, "done");
  t.deepEqual(await listLedgerUnits(), [3n]);
});

test("a dry run of a comparison locks one stream at a time", async (t) => {
  const { url, deps } = await setUpLedger(t);
  for (const count of [1, 2]) {
    const { id } = await createTestOrganization(deps.db, { clock: deps.clock });
    await createRegistrationWriter(deps).register(registrationOf(id, { count }));
  }
  await holdUsage(deps, UPGRADE);
  // Not a pool: it would notice that it is used inside of a transaction of another one.
  const watcher = new Client({ connectionString: url });
  await watcher.connect();
  t.teardown(() => watcher.end());
  const locks: number[] = [];
  const db = await openTestPool(t, url, 1, {
    interceptors: [
      {
        name: "count-locks",
        afterQueryExecution: async () => {
          const { rows } = await watcher.query<{ locks: number }>(`
            SELECT count(*)::integer AS locks
            FROM pg_locks
            JOIN pg_database ON pg_database.oid = pg_locks.database
            WHERE locktype = 'advisory' AND datname = current_database()
          `);
          locks.push(rows[0]?.locks ?? 0);
          return null;
        },
      },
    ],
  });

  const settled = await settleAfterRestore(
    { ...deps, db },
    { operator: "maria", since: null, isDryRun: true },
    new AbortController().signal,
  );

  t.is(settled.length, 3);
  t.is(Math.max(...locks), 1);
});

test("an attempt that goes on after its lease has ended bills nothing to the ledger that a comparison has settled", async (t) => {
  const { deps, stream, pass, settle, drain, listLedgerUnits } = await setUpLedger(t);
  const started = startLease(deps);
  const [sealing] = await sealMeterEvents(deps, [{ ...stream, firstSecond: 0 }], started);
  if (sealing?.kind !== "event") {
    throw new Error("There is usage to seal.");
  }

  await holdUsage(deps, UPGRADE);
  pass(16);
  const run = await settle();
  t.is(run.exitCode, 0, run.stderr);
  const records = createAttemptRecords(deps.db);
  const late = await finishSending({ ...deps, records }, sealing.event, {
    started,
    signal: new AbortController().signal,
  });

  t.is((await drain()).kind, "done");
  t.deepEqual(await listLedgerUnits(), [3n]);
  t.like(late, { kind: "delayed", cause: "retry", outcomeUnknown: false });
});
