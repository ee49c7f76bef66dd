import { AsyncLocalStorage } from "node:async_hooks";
import test from "ava";
import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { lockMeterEventRow } from "../../../modules/billing/meterEvents.sql.ts";
import {
  doubtUnsentEvents,
  redateBlockedEvents,
} from "../../../modules/billing/reconciliation/eventsInDoubt.sql.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { getMeterEvent } from "../../../modules/billing/reconciliation/getMeterEvent.ts";
import { requireUnchanged } from "../../../modules/billing/reconciliation/requireUnchanged.ts";
import { readJson } from "../../cli/runImpact.ts";
import { awaitBlocked, endsOrBlocks, runBehindLocks } from "../../support/lockWaits.ts";
import { setUpRestore, whileReadingSums } from "./restoreSetup.ts";
import { LAG_SECONDS, MINUTE, setUpRetried } from "./retriedSetup.ts";

const idRow = z.object({ id: z.bigint() });

test("usage that a lost history has retried is not billed twice if it is retried during the comparison", async (t) => {
  const scene = await setUpRetried(t, { pending: 1 });
  const { restored, usageId } = scene;
  t.deepEqual(scene.billed, { 0: 10, 1: 1 });

  await scene.compare(
    whileReadingSums(restored.deps.billing, async () => {
      t.like(await scene.check(usageId), [{ result: "delivered" }]);
    }),
  );

  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), scene.billed);
});

const lockEvents = (transaction: DatabaseTransactionConnection) =>
  transaction.query(sql.typeAlias("void")`SELECT FROM meter_event FOR UPDATE`);

test("a retry that has read an event before a comparison begins is refused after it", async (t) => {
  const scene = await setUpRetried(t);
  const { restored, usageId, compare, retry } = scene;

  const [, retried] = await runBehindLocks(restored.db, lockEvents, compare, () => retry(usageId));

  t.like(readJson(retried), [{ result: "failed" }]);
  t.regex(retried.stdout, /changed in the meantime; try again/u);
  t.like(await scene.check(usageId), [{ result: "delivered" }]);
  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), scene.billed);
});

test("usage that a retry releases while a comparison begins is compared", async (t) => {
  const scene = await setUpRetried(t);
  const { restored, usageId, compare, retry } = scene;

  const [retried] = await runBehindLocks(restored.db, lockEvents, () => retry(usageId), compare);

  t.like(readJson(retried), [{ result: "waiting" }]);
  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), scene.billed);
});

test("a dry run of a comparison does not wait for failed usage that is being changed", async (t) => {
  const refund = { units: 3, state: "unsealed" } as const;
  const { restored, compare } = await setUpRetried(t, { pending: 1, refund });
  const outside = AsyncLocalStorage.snapshot();

  await restored.db.transaction(async (transaction) => {
    await lockEvents(transaction);
    const comparison = outside(() => compare(restored.deps.billing, true));
    t.true(await endsOrBlocks(transaction, comparison));
    t.like(await comparison, [{ outcome: { kind: "delivered" } }]);
  });
});

for (const [title, state, change] of [
  ["usage that counts as not sent is put in doubt", "rejected", doubtUnsentEvents],
  [
    "blocked usage is redated",
    "blocked",
    (db: DatabasePool) =>
      db.transaction((transaction) =>
        redateBlockedEvents(transaction, { from: new Date(0), to: new Date(1) }),
      ),
  ],
  [
    "a comparison locks its usage",
    "blocked",
    (db: DatabasePool, ids: readonly [bigint, bigint]) =>
      db.transaction(async (transaction) => {
        const [first, second] = [
          await getMeterEvent(transaction, ids[0]),
          await getMeterEvent(transaction, ids[1]),
        ];
        await requireUnchanged(transaction, {
          events: [second, first],
          minutes: [],
          customers: new Map(),
        });
      }),
  ],
] as const) {
  test(`${title} in the order of its ids`, async (t) => {
    const { original, stream } = await setUpRestore(t);
    const { db } = original;
    const [first = 0n, second = 0n] = await db.anyFirst(sql.type(idRow)`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, state, outcome_unknown, sealed_at,
        settled_at
      )
    SELECT
      ${stream.accountId}, 'live', 'tree', second, 1, 5, 'event-' || second, 'stripe', ${state},
      ${state === "blocked"}, now(), ${timestamp(new Date(0))}
    FROM generate_series(1, 2) AS second
    RETURNING id
  `);
    // Moves the row behind the other one, also for the indexes.
    await db.query(sql.typeAlias("void")`
    UPDATE meter_event SET customer_id = 'cus_1' WHERE id = ${first}
  `);
    const outside = AsyncLocalStorage.snapshot();

    const { changed } = await db.transaction(async (transaction) => {
      await lockMeterEventRow(transaction, first);
      const begun = outside(() => change(db, [first, second]));
      await awaitBlocked(transaction);
      const free = await transaction.anyFirst(sql.type(idRow)`
      SELECT id FROM meter_event ORDER BY id FOR UPDATE SKIP LOCKED
    `);
      t.deepEqual(free, [first, second]);
      return { changed: begun };
    });
    await changed;
  });
}

for (const [state, customer] of [
  ["held", "same"],
  ["held", "another"],
  ["unsealed", "same"],
  ["unsealed", "another"],
] as const) {
  test(`a refund that was ${state} at the restored time, and waived since, is not sent by a retry of its usage, if the organization had ${customer === "same" ? "the same" : "another"} customer then`, async (t) => {
    const scene = await setUpRetried(t, { pending: 1, refund: { units: 3, state }, customer });
    await scene.setCustomer();
    const { restored, usageId, impact } = scene;
    const billed = { 0: 7, 1: 1 };
    t.deepEqual(scene.billed, billed);
    let refundId = "";

    await scene.compare(
      whileReadingSums(restored.deps.billing, async () => {
        refundId = await scene.findRefundId();
        for (const [command, ...args] of [
          ["waive", usageId, "--reason", "invoiced by hand"],
          ["waive", refundId, "--reason", "invoiced by hand"],
          ["retry", usageId, "--assume", "delivered", "--customer", scene.customerId],
        ] as const) {
          const run = await impact(restored, "usage", command, ...args);
          t.is(run.exitCode, 0, run.stdout + run.stderr);
        }
      }),
    );

    await scene.drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
    scene.pass(LAG_SECONDS);
    t.like(await scene.check(refundId), [{ result: "delivered" }]);
    await scene.drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
  });
}

for (const customer of ["none", "another"] as const) {
  test(`usage that a lost history has retried with its new customer is not billed twice if the organization had ${customer} before`, async (t) => {
    const scene = await setUpRetried(t, { customer });
    const { restored, usageId, setCustomer, retry, drain } = scene;
    t.deepEqual(scene.billed, { 0: 10 });
    await scene.compare();
    if (customer === "none") {
      for (const args of [[], ["--assume", "delivered"]]) {
        const early = await retry(usageId, ...args);
        t.is(early.exitCode, 1);
        t.regex(early.stdout, /has no Stripe customer/u);
      }
    }

    await setCustomer();
    t.like(await scene.check(usageId), [{ result: "delivered" }]);

    await drain(restored);
    t.deepEqual(scene.billedByMinute(), { 0: 10 });
    await scene.refund(restored, scene.registrationId, 3);
    await drain(restored);
    t.deepEqual(scene.billedByMinute(), { 0: 7 });
  });
}

for (const isSetFirst of [true, false]) {
  test(`pending usage that a lost history has sent to a new customer is not billed twice if the customer is set ${isSetFirst ? "before" : "after"} the comparison`, async (t) => {
    const scene = await setUpRetried(t, { customer: "none", pending: 1 });
    const { restored, setCustomer, drain } = scene;
    const billed = { 0: 10, 1: 1 };
    t.deepEqual(scene.billed, billed);
    if (isSetFirst) {
      await setCustomer();
    }

    const settled = await scene.compare();

    t.like(settled, [{ outcome: { kind: isSetFirst ? "delivered" : "unclear" } }]);
    if (!isSetFirst) {
      await setCustomer();
      t.like(await scene.check(String(settled[0]?.event.id)), [{ result: "delivered" }]);
    }
    t.like(await scene.check(scene.usageId), [{ result: "delivered" }]);
    await drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
    scene.pass(LAG_SECONDS);
    const reconciled = await scene.impact(restored, "usage", "reconcile");
    t.is(reconciled.exitCode, 0, reconciled.stdout);
  });
}

test("an event that a lost history has sent to another customer is not billed twice if it was being sent at the restored time", async (t) => {
  const scene = await setUpRestore(t);
  const { control, drain, pass, impact, original } = scene;
  type Opened = typeof original;
  const setCustomer = (opened: Opened, customerId: string) =>
    impact(opened, "org", "update", scene.stream.accountId, "--stripe-customer", customerId);
  const retry = async (opened: Opened) => {
    pass(LAG_SECONDS);
    return readJson(await impact(opened, "usage", "retry", "--all", "--json"));
  };
  await setCustomer(original, control.addCustomer({}).customerId);
  await scene.register(original, 10);
  pass(5);
  control.addFault({ kind: "drop" });
  await drain(original);
  const { continued, restored } = await scene.fork(original);
  pass(MINUTE);
  control.addFault({ kind: "respond", status: 400, body: { error: { message: "refused" } } });
  await drain(continued);
  await setCustomer(continued, scene.customerId);
  t.like(await retry(continued), [{ result: "waiting" }]);
  await drain(continued);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
  await setCustomer(restored, scene.customerId);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);

  t.is((await impact(restored, "usage", "compare-and-release")).exitCode, 1);

  t.like(await retry(restored), [{ result: "delivered" }]);
  await drain(restored);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
});
