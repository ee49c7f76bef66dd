import test from "ava";
import type { DatabaseTransactionConnection } from "slonik";
import { lockDeployment, recordHold } from "../../../db/billing/deployment.ts";
import { insertUsageCorrection } from "../../../db/billing/reconciliation/usageCorrections.ts";
import { lockStream } from "../../../db/billing/streams.ts";
import { sql } from "../../../db/sql.ts";
import { DELIVERED_LATE } from "../../../domain/billing/meterEvents.ts";
import { holdUsage } from "../../../services/billing/holdUsage.ts";
import { drainUsage } from "../../../services/billing/sending/drainUsage.ts";
import { createRegistrationWriter } from "../../../services/registrations/createRegistrationWriter.ts";
import type { Run } from "../../cli/runImpact.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { LAG_SECONDS, setUpAcknowledged, setUpMinute } from "./acknowledgedSetup.ts";
import { NOON } from "./restoreSetup.ts";

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

  const settled = await scene.run("compare-and-release");

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

test("drift is not acknowledged again while usage that it counted has failed, so a retry does not send that", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  await scene.report(0);

  const acknowledged = await scene.run(...(await scene.findDifference()));

  t.like(await scene.retry(0), [{ result: "delivered" }]);
  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 1: 7 });
  t.is(acknowledged.exitCode, 1);
  t.regex(
    acknowledged.stderr,
    /has failed since its drift was acknowledged; run `impact usage retry`/u,
  );
  t.is((await scene.run("reconcile")).exitCode, 0);
});

test("a reconciliation names usage that has failed since drift of its minute was acknowledged", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  await scene.report(0);

  const { exitCode, stderr } = await scene.run("reconcile");

  t.is(exitCode, 1);
  t.regex(
    stderr,
    /has failed since drift of its minute was acknowledged.* run: impact usage retry \d+\n/u,
  );
  t.notRegex(stderr, /acknowledge-drift/u);
});

test("drift is acknowledged again beside usage that had failed before", async (t) => {
  const scene = await setUpMinute(t, [5, 7], { lost: [0] });
  await scene.report(0);
  for (const units of [24, 3]) {
    await scene.reportElsewhere(units, NOON);
    const acknowledged = await scene.run(...(await scene.findDifference()));
    t.is(acknowledged.exitCode, 0, acknowledged.stderr);
  }

  t.like(await scene.retry(0), [{ result: "waiting" }]);

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 32, 1: 7 });
});

for (const close of ["settle", "waive"] as const) {
  test(`\`usage ${close}\` refuses usage that acknowledged drift may count, so other usage of its minute is billed`, async (t) => {
    const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
    await scene.report(0);

    const closed = await scene[close](0);

    t.is(closed.exitCode, 1);
    t.regex(
      closed.stdout + closed.stderr,
      /counted as delivered when drift of its minute was acknowledged; run/u,
    );
    t.like(await scene.retry(0), [{ result: "delivered" }]);
    scene.pass(LAG_SECONDS);
    await scene.lose(1);
    await scene.block(1);
    t.like(await scene.retry(1), [{ result: "waiting" }]);
    await scene.drain(scene.original);
    t.deepEqual(scene.billed(), { 1: 7 });
    scene.pass(LAG_SECONDS);
    t.is((await scene.run("reconcile")).exitCode, 0);
  });
}

test("acknowledged drift that a check has counted as other usage is billed by a retry of the usage that it replaced", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  await scene.report(0);
  await scene.lose(1);
  await scene.block(1);
  t.like(await scene.retry(1), [{ result: "waiting" }]);
  await scene.drain(scene.original);
  scene.pass(LAG_SECONDS);

  t.is((await scene.settle(0)).exitCode, 1);
  t.like(await scene.retry(0), [{ result: "waiting" }]);

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 5, 1: 2 });
  scene.pass(LAG_SECONDS);
  t.is((await scene.run("reconcile")).exitCode, 0);
});

test("late usage that was settled by hand stays delivered if drift of its minute is acknowledged when it is refused", async (t) => {
  const scene = await setUpMinute(t, [5, 7], { lost: [0] });
  await scene.original.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET last_error = ${DELIVERED_LATE} WHERE quantity = 5
  `);
  t.is((await scene.settle(0)).exitCode, 0);
  scene.pass(LAG_SECONDS);
  t.is((await scene.run(...(await scene.findDifference()))).exitCode, 0);

  await scene.report(0);

  t.deepEqual(await scene.states(), ["delivered", "delivered"]);
  await scene.lose(1);
  await scene.block(1);
  t.like(await scene.retry(1), [{ result: "waiting" }]);
  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 1: 7 });
});

test("usage that was sealed after drift of its minute was acknowledged can be settled by hand", async (t) => {
  const scene = await setUpAcknowledged(t, [5, 7], { lost: [0] });
  await scene.lose(1);
  await scene.report(1);
  t.like(await scene.retry(1), [{ result: "waiting" }]);
  scene.refuseNext();
  await scene.drain(scene.original);
  t.deepEqual(await scene.states(), ["delivered", "superseded", "rejected"]);

  const settled = await scene.settle(2);

  t.is(settled.exitCode, 0, settled.stderr);
  t.is((await scene.run("reconcile")).exitCode, 0);
});

for (const [share, ...lost] of [["all"], ["part", 5]] as const) {
  test(`a difference is not acknowledged while lag may be ${share} of it, so failed usage of its minute is billed`, async (t) => {
    const scene = await setUpMinute(t, [10, 10, ...lost], { lost: [0, 1, ...lost.map(() => 2)] });
    await scene.report(0);
    await scene.report(1);
    t.like(await scene.retry(0), [{ result: "waiting" }]);
    await scene.drain(scene.original);
    // The sum of the minute does not show it yet. That of another minute differs for good.
    await scene.lose(2 + lost.length);
    await scene.reportElsewhere(1, NOON + 60);

    const early = await scene.run(...(await scene.findDifference()));

    t.is(early.exitCode, 1);
    t.regex(early.stderr, /was delivered less than 15 minutes before that reconciliation/u);
    scene.pass(LAG_SECONDS);
    await scene.reportElsewhere(10, NOON);
    const acknowledged = await scene.run(...(await scene.findDifference()));
    t.is(acknowledged.exitCode, 0, acknowledged.stderr);
    t.like(await scene.retry(1), [{ result: "waiting" }]);
    await scene.drain(scene.original);
    t.deepEqual(scene.billedByMinute(), { 0: 20, 1: 1 });
  });
}

test("a settlement of lost refunds finds one beside an acknowledged surplus", async (t) => {
  const scene = await setUpMinute(t, [100], { lost: [] });
  await scene.reportElsewhere(10, NOON);
  t.is((await scene.run(...(await scene.findDifference()))).exitCode, 0);
  await scene.reportElsewhere(-5, NOON);

  t.like(await scene.correctLostRefunds(), { corrections: [{ action: "send", correction: 5 }] });

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 110 });
});

test("a settlement of lost refunds takes no surplus back beside acknowledged lost usage", async (t) => {
  const scene = await setUpAcknowledged(t, [100, 10], { lost: [1] });
  await scene.reportElsewhere(5, NOON);

  t.deepEqual((await scene.correctLostRefunds()).corrections, []);

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 105 });
});

test("the audit log has an acknowledgement for each account that had the customer", async (t) => {
  const scene = await setUpMinute(t, [5], { lost: [0] });
  const { original, impact, stream, customerId } = scene;
  const none = ["--stripe-customer", "none", "--stripe-subscription", "none"];
  await impact(original, "org", "update", stream.accountId, ...none);
  const successor = await createTestOrganization(original.db, {
    name: "Successor",
    clock: original.deps.clock,
    stripeCustomerId: customerId,
  });
  await createRegistrationWriter(original.deps).register(registrationOf(successor.id, {}));
  scene.pass(5);
  await drainUsage(
    original.deps,
    { ...stream, accountId: successor.id },
    { signal: new AbortController().signal, onResult: () => undefined },
  );
  scene.pass(LAG_SECONDS);

  t.is((await scene.run(...(await scene.findDifference()))).exitCode, 0);

  for (const accountId of [stream.accountId, successor.id]) {
    const listed = await impact(original, "audit", "list", "--account", accountId, "--json");
    t.is([...listed.stdout.matchAll(/"usage.acknowledge_drift"/gu)].length, 1, accountId);
  }
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
