import type { ExecutionContext } from "ava";
import test from "ava";
import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { lockDeployment } from "../../../modules/billing/deployment.sql.ts";
import { listFailedMeterEventIds } from "../../../modules/billing/meterEventReports.sql.ts";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { applyRejectionReport } from "../../../modules/billing/processorEvents/applyRejectionReport.ts";
import { CONCURRENT_READS } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { settleAfterRestore } from "../../../modules/billing/reconciliation/settleAfterRestore.ts";
import { startLease } from "../../../modules/billing/sending/attemptLease.ts";
import { sealMeterEvents } from "../../../modules/billing/sending/sealMeterEvents.ts";
import { readJson } from "../../cli/runImpact.ts";
import { readEvents } from "../../events/readEvents.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { NOON, setUpRestore, whileReadingSums } from "./restoreSetup.ts";

const MINUTE = 60;
const USAGE_EVENTS = ["usage.failed", "usage.recovered"] as const;
const COMPARE_AND_RELEASE = ["usage", "compare-and-release"] as const;

/**
 * A restored database with two events in doubt, in consecutive seconds of the last of some minutes. The earlier minutes have
 * one unit each. Usage is held, and Stripe's sums show everything.
 */
const setUpDoubt = async (
  t: ExecutionContext,
  {
    counts,
    earlierMinutes,
    refunded = 0,
  }: {
    readonly counts: readonly number[];
    readonly earlierMinutes: number;
    /** The units of the last registration that are refunded before anything is sent. */
    readonly refunded?: number;
  },
) => {
  const scene = await setUpRestore(t);
  const { impact, pass, register } = scene;
  for (let minute = 0; minute < earlierMinutes; minute += 1) {
    await register(scene.original, 1);
    pass(MINUTE);
  }
  for (const [index, count] of counts.entries()) {
    const id = await register(scene.original, count);
    if (refunded > 0 && index === counts.length - 1) {
      await scene.refund(scene.original, id, refunded);
    }
    pass(1);
  }
  const inDoubt = counts.length + (refunded > 0 ? 1 : 0);
  const { continued, restored } = await scene.fork(scene.original);
  pass(5);
  return {
    ...scene,
    continued,
    restored,
    /** Holds usage until the sums of what Stripe has now show everything. */
    hold: async () => {
      await guardUsage(restored.deps);
      pass(16 * MINUTE);
    },
    /** Runs the comparison, which is to be refused, and other work between the reads of its first sums and their results. */
    compareWhile: async (work: (eventIds: readonly string[]) => Promise<void>): Promise<void> => {
      const { deps } = restored;
      const billing = whileReadingSums(deps.billing, async () => {
        const ids = await listFailedMeterEventIds(deps.db, null);
        await work(ids.slice(-inDoubt).map(String));
      });
      await t.throwsAsync(
        settleAfterRestore(
          { ...deps, billing },
          { operator: "maria", since: null, isDryRun: false },
          new AbortController().signal,
        ),
        { message: /changed in the meantime; try again/u },
      );
    },
    retry: async (id: string | undefined) => {
      const run = await impact(restored, "usage", "retry", String(id));
      t.is(run.exitCode, 0, run.stderr);
    },
    /** Repeats the comparison, and sends what is left. */
    finish: async (): Promise<void> => {
      const repeated = await impact(restored, ...COMPARE_AND_RELEASE);
      t.is(repeated.exitCode, 0, repeated.stderr);
      t.is((await scene.drain(restored)).kind, "done");
    },
  };
};

test("events that a retry finds delivered before a comparison reads their minute are not billed again", async (t) => {
  const scene = await setUpDoubt(t, { counts: [50, 2], earlierMinutes: CONCURRENT_READS });
  await scene.drain(scene.continued);
  await scene.hold();

  await scene.compareWhile(async ([first, second]) => {
    await scene.retry(first);
    await scene.retry(second);
  });

  await scene.finish();
  t.deepEqual(scene.billedByMinute(), { 0: 1, 1: 1, 2: 1, 3: 1, 4: 52 });
});

for (const order of [[1], [1, 0]]) {
  test(`two equal events of which Stripe has one are billed once each if retries of ${order.map((index) => index + 1).join(" and ")} end during their comparison`, async (t) => {
    const scene = await setUpDoubt(t, { counts: [10, 10], earlierMinutes: 0 });
    await scene.reportElsewhere(10, scene.control.now() - 5);
    await scene.hold();

    await scene.compareWhile(async (ids) => {
      for (const index of order) {
        await scene.retry(ids[index]);
      }
    });

    await scene.finish();
    t.deepEqual(scene.billedByMinute(), { 0: 20 });
  });
}

for (const decision of [
  ["usage", "settle", "--invoice-item", "ii_1"],
  ["usage", "waive"],
] as const) {
  test(`usage that is closed by \`${decision.slice(0, 2).join(" ")}\` during its comparison is not sent`, async (t) => {
    const scene = await setUpDoubt(t, { counts: [10, 20], earlierMinutes: 0 });
    await scene.hold();

    await scene.compareWhile(async ([first]) => {
      const run = await scene.impact(
        scene.restored,
        ...decision,
        String(first),
        "--reason",
        "invoiced by hand",
      );
      t.is(run.exitCode, 0, run.stderr);
    });

    await scene.finish();
    t.deepEqual(scene.billedByMinute(), { 0: 20 });
  });
}

test("a refund that was waived while it was in doubt is not sent by a retry of its usage, but checked by its own", async (t) => {
  const scene = await setUpDoubt(t, { counts: [10], earlierMinutes: 0, refunded: 3 });
  await scene.drain(scene.continued);
  t.deepEqual(scene.billedByMinute(), { 0: 7 });
  await scene.hold();
  const run = async (...args: readonly string[]): Promise<void> => {
    const { exitCode, stdout, stderr } = await scene.impact(scene.restored, "usage", ...args);
    t.is(exitCode, 0, stdout + stderr);
  };
  let waived: readonly string[] = [];
  await scene.compareWhile(async (ids) => {
    waived = ids.toReversed();
    await run("waive", ...waived, "--reason", "invoiced by hand");
  });
  await scene.finish();
  const [refundId = "", usageId = ""] = waived;

  await run("retry", usageId, "--assume", "delivered");

  t.is((await scene.drain(scene.restored)).kind, "done");
  t.deepEqual(scene.billedByMinute(), { 0: 7 });
  scene.pass(16 * MINUTE);
  await run("retry", refundId);
  t.is((await scene.drain(scene.restored)).kind, "done");
  t.deepEqual(scene.billedByMinute(), { 0: 7 });
  const events = await readEvents(scene.restored.deps, scene.stream, { types: USAGE_EVENTS });
  t.deepEqual(
    events.map(({ type, data }) => ["count" in data && data.count, type]),
    [
      [10, "usage.failed"],
      [-3, "usage.failed"],
      [10, "usage.recovered"],
      [-3, "usage.recovered"],
    ],
  );
});

for (const refunded of [3, 10]) {
  test(`usage of 10 and a refund of ${refunded} that were waived while they were in doubt are billed once if the sums decide a retry`, async (t) => {
    const scene = await setUpDoubt(t, { counts: [10], earlierMinutes: 0, refunded });
    await scene.drain(scene.continued);
    t.is(scene.billedByMinute()[0] ?? 0, 10 - refunded);
    await scene.hold();
    const run = async (...args: readonly string[]): Promise<void> => {
      const { exitCode, stdout, stderr } = await scene.impact(scene.restored, "usage", ...args);
      t.is(exitCode, 0, stdout + stderr);
    };
    let usageId = "";
    await scene.compareWhile(async ([usage = "", refund = ""]) => {
      usageId = usage;
      await run("waive", refund, usage, "--reason", "invoiced by hand");
    });
    await scene.finish();
    scene.pass(16 * MINUTE);

    await run("retry", usageId);

    t.is((await scene.drain(scene.restored)).kind, "done");
    t.is(scene.billedByMinute()[0] ?? 0, 10 - refunded);
  });
}

/**
 * A deployment whose usage is held. Stripe has refused 6 units later, and has those of a retry in the history that was lost.
 */
const setUpRefused = async (t: ExecutionContext) => {
  const scene = await setUpRestore(t);
  const { control, original, pass } = scene;
  const { db, deps } = original;
  await scene.register(original, 6);
  pass(5);
  control.addFault({ kind: "reject_later" });
  await scene.drain(original);
  await scene.reportElsewhere(6, NOON);
  await scene.impact(original, "usage", "hold", "--reason", "restore");
  pass(16 * MINUTE);
  const { id, identifier } = await db.one(sql.type(
    z.object({ id: z.bigint(), identifier: z.string() }),
  )`
    SELECT id, identifier FROM meter_event
  `);
  const now = deps.clock.now();
  const event = { id: "evt_1", type: "v1.billing.meter.error_report_triggered", objectId: null };
  await insertProcessorEvent(db, { ...event, createdAt: now }, now);
  const samples = [{ identifier, message: "refused" }];
  return {
    ...scene,
    db,
    settle: () =>
      settleAfterRestore(
        deps,
        { operator: "maria", since: null, isDryRun: false },
        new AbortController().signal,
      ),
    report: () =>
      applyRejectionReport({ ...deps, observeRejection: () => undefined }, event.id, {
        windowStart: now,
        windowEnd: now,
        rejections: [{ code: "archived_meter", errors: 1, samples }],
      }),
    retry: async () => {
      // The sums may lag behind the report.
      pass(16 * MINUTE);
      return readJson(await scene.impact(original, "usage", "retry", String(id), "--json"));
    },
  };
};

test("usage that is reported as refused before a comparison ends its hold is checked by a retry", async (t) => {
  const { db, settle, report, retry, ...scene } = await setUpRefused(t);

  await runBehindLocks(db, lockDeployment, settle, report);

  t.like(await retry(), [{ result: "delivered" }]);
  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 6 });
});

const lockEvents = (transaction: DatabaseTransactionConnection) =>
  transaction.query(sql.typeAlias("void")`SELECT FROM meter_event FOR UPDATE`);

test("usage whose report is applied while a comparison ends its hold is checked by a retry", async (t) => {
  const { db, settle, report, retry, ...scene } = await setUpRefused(t);
  // The report has read that usage is held, and waits to change the event.
  await runBehindLocks(db, lockEvents, report, settle);

  t.like(await retry(), [{ result: "delivered" }]);
  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 6 });
});

test("a comparison ignores the lease of an attempt that began before the clock was set back", async (t) => {
  const { original, stream, impact, pass, ...scene } = await setUpRestore(t);
  await scene.register(original, 6);
  pass(5);
  const hourAhead = new Date(original.deps.clock.now().getTime() + 60 * MINUTE * 1000);
  const [sealing] = await sealMeterEvents(
    original.deps,
    [{ ...stream, firstSecond: 0 }],
    startLease({ clock: { now: () => hourAhead } }),
  );
  t.like(sealing, { kind: "event", event: { state: "sending" } });
  await impact(original, "usage", "hold", "--reason", "restore");
  pass(16 * MINUTE);

  const settled = await impact(original, ...COMPARE_AND_RELEASE);

  t.is(settled.exitCode, 0, settled.stderr);
  t.is((await scene.drain(original)).kind, "done");
  t.deepEqual(scene.billed(), { 0: 6 });
});
