import type { ExecutionContext } from "ava";
import test from "ava";
import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { lockDeployment, recordHold } from "../../../db/billing/deployment.ts";
import { insertProcessorEvent } from "../../../db/billing/processorEvents/processorEvents.ts";
import { insertUsageCorrection } from "../../../db/billing/reconciliation/usageCorrections.ts";
import { lockStream } from "../../../db/billing/streams.ts";
import { sql } from "../../../db/sql.ts";
import { holdUsage } from "../../../services/billing/holdUsage.ts";
import { applyRejectionReport } from "../../../services/billing/processorEvents/applyRejectionReport.ts";
import { readJson } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const LAG_SECONDS = 16 * 60;

const eventRow = z.object({ id: z.bigint(), identifier: z.string(), state: z.string() });

/** A deployment with delivered events in the seconds of one minute. Stripe's sums show what it has of them. */
const setUpMinute = async (
  t: ExecutionContext,
  counts: readonly number[],
  { lost }: { readonly lost: readonly number[] },
) => {
  const scene = await setUpRestore(t);
  const { original, impact, control, pass } = scene;
  const registrations: string[] = [];
  for (const count of counts) {
    registrations.push(await scene.register(original, count));
    pass(1);
  }
  pass(5);
  await scene.drain(original);
  const listEvents = () =>
    original.db.any(sql.type(eventRow)`SELECT id, identifier, state FROM meter_event ORDER BY id`);
  const lose = async (place: number): Promise<void> => {
    const event = (await listEvents())[place];
    t.assert(event);
    control.rejectAccepted({ identifier: event?.identifier ?? "" });
  };
  for (const place of lost) {
    await lose(place);
  }
  const run = (...args: readonly string[]) => impact(original, "usage", ...args);
  const runOn = async (command: string, place: number, ...args: readonly string[]) =>
    run(command, String((await listEvents())[place]?.id), ...args);
  pass(LAG_SECONDS);
  return {
    ...scene,
    run,
    lose,
    registrations,
    states: async () => (await listEvents()).map(({ state }) => state),
    reopen: (place: number) => runOn("reopen", place, "--reason", "lost", "--as", "ada"),
    retry: async (place: number, ...args: readonly string[]) =>
      readJson(await runOn("retry", place, "--json", ...args)),
    /** Stores the difference of the minute. Returns the arguments that acknowledge it. */
    findDifference: async () => {
      const reconciled = await run("reconcile");
      const id = /acknowledge-drift (?<id>\d+)/u.exec(reconciled.stderr)?.groups?.["id"];
      t.assert(id, reconciled.stderr);
      return ["acknowledge-drift", String(id), "--reason", "billed by hand"] as const;
    },
    /** Applies Stripe's report of an event that it has lost. */
    report: async (place: number): Promise<void> => {
      const { db, clock } = original.deps;
      const now = clock.now();
      const event = {
        id: "evt_1",
        type: "v1.billing.meter.error_report_triggered",
        objectId: null,
      };
      await insertProcessorEvent(db, { ...event, createdAt: now }, now);
      const identifier = (await listEvents())[place]?.identifier ?? "";
      await applyRejectionReport({ db, clock, observeRejection: () => undefined }, event.id, {
        windowStart: now,
        windowEnd: now,
        rejections: [
          { code: "archived_meter", errors: 1, samples: [{ identifier, message: "refused" }] },
        ],
      });
      pass(LAG_SECONDS);
    },
    waive: (place: number) => runOn("waive", place, "--reason", "too old"),
    settle: (place: number) =>
      runOn("settle", place, "--invoice-item", "ii_1", "--reason", "billed by hand"),
    block: async (place: number): Promise<void> => {
      await original.db.query(sql.typeAlias("void")`
        UPDATE meter_event SET state = 'blocked', outcome_unknown = true
        WHERE id = ${(await listEvents())[place]?.id ?? 0n}
      `);
    },
  };
};

/** The same after the difference of the minute was acknowledged. */
const setUpAcknowledged = async (...args: Parameters<typeof setUpMinute>) => {
  const [t] = args;
  const scene = await setUpMinute(...args);
  const acknowledged = await scene.run(...(await scene.findDifference()));
  t.is(acknowledged.exitCode, 0, acknowledged.stderr);
  return scene;
};

test("lost usage whose drift is acknowledged cannot be reopened", async (t) => {
  const { reopen, drain, original, billed, states } = await setUpAcknowledged(t, [5, 7], {
    lost: [0],
  });

  const reopened = await reopen(0);

  t.is(reopened.exitCode, 1);
  t.regex(reopened.stderr, /the processor has its usage, or what it lacks is acknowledged/u);
  await drain(original);
  t.deepEqual(billed(), { 1: 7 });
  t.deepEqual(await states(), ["delivered", "delivered"]);
});

test("usage that is lost after the drift of its minute was acknowledged is reopened", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  await scene.lose(1);

  const reopened = await scene.reopen(1);

  t.is(reopened.exitCode, 0, reopened.stderr);
  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 1: 7 });
});

test("acknowledged usage of another program does not count as a blocked event's", async (t) => {
  const scene = await setUpMinute(t, [5], { lost: [] });
  await scene.reportElsewhere(24, NOON);
  t.is((await scene.run(...(await scene.findDifference()))).exitCode, 0);
  await scene.lose(0);
  await scene.block(0);

  t.like(await scene.retry(0), [{ result: "waiting" }]);

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 29 });
});

test("a comparison after a restore does not take acknowledged drift for a refund that was sent", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  const { original } = scene;
  await scene.refund(original, scene.registrations[1] ?? "", 3);
  await holdUsage(original.deps, { reason: "restore", by: "maria" });
  scene.pass(LAG_SECONDS);

  const settled = await scene.run("reconcile", "--after-restore");

  t.is(settled.exitCode, 0, settled.stderr);
  await scene.drain(original);
  t.deepEqual(scene.billed(), { 1: 4 });
});

test("usage that is reported as lost after its drift was acknowledged is not sent by a retry", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  await scene.report(0);
  t.deepEqual(await scene.states(), ["rejected", "delivered"]);

  t.like(await scene.retry(0), [{ result: "delivered" }]);

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 1: 7 });
  t.is((await scene.run("reconcile")).exitCode, 0);
});

test("a retry sends usage that was lost after the drift of its minute was acknowledged", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  await scene.lose(1);
  await scene.report(1);

  t.like(await scene.retry(1), [{ result: "waiting" }]);

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 1: 7 });
});

for (const state of ["blocked", "sealed"] as const) {
  test(`a difference is not acknowledged while an event of its minute is ${state}, because that event may explain it`, async (t) => {
    const scene = await setUpMinute(t, [5], { lost: [] });
    const { db } = scene.original;
    await db.query(sql.typeAlias("void")`UPDATE meter_event SET state = ${state}`);

    const acknowledged = await scene.run(...(await scene.findDifference()));

    t.is(acknowledged.exitCode, 1);
    t.regex(
      acknowledged.stderr,
      /usage of that minute is pending, or may have been sent although it failed or was waived; wait/u,
    );
    await db.query(sql.typeAlias("void")`UPDATE meter_event SET state = 'blocked'`);
    t.like(await scene.retry(0), [{ result: "delivered" }]);
    await scene.drain(scene.original);
    t.deepEqual(scene.billed(), { 0: 5 });
  });
}

test("a difference is not acknowledged while waived usage may explain it", async (t) => {
  const scene = await setUpMinute(t, [5, 7], { lost: [] });
  await scene.block(0);
  await scene.waive(0);

  const acknowledged = await scene.run(...(await scene.findDifference()));

  t.is(acknowledged.exitCode, 1);
  t.regex(acknowledged.stderr, /may have been sent although it failed or was waived; wait/u);
  scene.pass(LAG_SECONDS);
  t.like(await scene.retry(0), [{ result: "delivered" }]);
  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 5, 1: 7 });
});

test("a difference is acknowledged beside usage that was settled by hand, which is never sent", async (t) => {
  const scene = await setUpMinute(t, [5, 7], { lost: [] });
  await scene.block(0);
  await scene.settle(0);

  const acknowledged = await scene.run(...(await scene.findDifference()));

  t.is(acknowledged.exitCode, 0, acknowledged.stderr);
});

test("a difference is not acknowledged after usage of its minute has changed", async (t) => {
  const scene = await setUpMinute(t, [5], { lost: [] });
  await scene.block(0);
  const command = await scene.findDifference();
  t.like(await scene.retry(0), [{ result: "delivered" }]);

  const acknowledged = await scene.run(...command);

  t.is(acknowledged.exitCode, 1);
  t.regex(acknowledged.stderr, /has changed since that reconciliation/u);
  t.is((await scene.run("reconcile")).exitCode, 0);
});

test("a difference is not acknowledged while usage is held, because lost history may explain it", async (t) => {
  const scene = await setUpMinute(t, [5], { lost: [0] });
  const command = await scene.findDifference();
  await holdUsage(scene.original.deps, { reason: "restore", by: "maria" });

  const acknowledged = await scene.run(...command);

  t.is(acknowledged.exitCode, 1);
  t.regex(
    acknowledged.stderr,
    /usage is held by maria: restore; repeat the command when the hold has ended/u,
  );
});

type Scene = Awaited<ReturnType<typeof setUpMinute>>;

const HELD_BY_MARIA = { at: new Date(NOON * 1000), reason: "restore", by: "maria" };

const CONCURRENT = [
  {
    change: "a hold that begins",
    decide: async (transaction: DatabaseTransactionConnection) => {
      await lockDeployment(transaction);
      await recordHold(transaction, HELD_BY_MARIA);
    },
    refusal: /usage is held by maria/u,
  },
  {
    change: "a correction of its minute",
    decide: async (
      transaction: DatabaseTransactionConnection,
      { stream, customerId }: Scene,
    ): Promise<void> => {
      await lockStream(transaction, stream);
      await insertUsageCorrection(
        transaction,
        {
          ...stream,
          processor: "stripe",
          customerId,
          accountIds: [stream.accountId],
          accountName: "",
        },
        {
          second: NOON,
          quantity: 24,
          restoredAt: new Date(NOON * 1000),
          reason: "failover",
          operator: "ada",
          now: new Date(NOON * 1000),
          settlement: null,
        },
      );
    },
    refusal: /usage of that minute is pending/u,
  },
];

for (const { change, decide, refusal } of CONCURRENT) {
  test(`an acknowledgement waits for ${change}, and is refused then`, async (t) => {
    const scene = await setUpMinute(t, [5], { lost: [] });
    await scene.reportElsewhere(24, NOON);
    const command = await scene.findDifference();

    const [acknowledged] = await runBehindLocks<[Run]>(
      scene.original.db,
      (transaction) => decide(transaction, scene),
      () => scene.run(...command),
    );

    t.is(acknowledged.exitCode, 1);
    t.regex(acknowledged.stderr, refusal);
  });
}
