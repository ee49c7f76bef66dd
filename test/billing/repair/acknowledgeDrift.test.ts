import test from "ava";
import type { DatabaseTransactionConnection } from "slonik";
import { lockDeployment, recordHold } from "../../../modules/billing/deployment.sql.ts";
import { insertUsageCorrection } from "../../../modules/billing/reconciliation/usageCorrections.sql.ts";
import { lockStream } from "../../../modules/billing/streams.sql.ts";
import { sql } from "../../../db/sql.ts";
import { holdUsage } from "../../../modules/billing/holdUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import type { Run } from "../../cli/runImpact.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { LAG_SECONDS, setUpAcknowledged, setUpMinute } from "./acknowledgedSetup.ts";
import { NOON } from "./restoreSetup.ts";

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

test("an earlier difference does not replace a later one of its minute that was acknowledged", async (t) => {
  const scene = await setUpMinute(t, [5], { lost: [] });
  await scene.reportElsewhere(24, NOON);
  const earlier = await scene.findDifference();
  scene.pass(1);
  await scene.reportElsewhere(3, NOON);
  const later = await scene.findDifference();
  t.is((await scene.run(...later)).exitCode, 0);

  const refused = await scene.run(...earlier);

  t.is(refused.exitCode, 1);
  t.regex(refused.stderr, /was acknowledged since that reconciliation; run `impact usage rec/u);
  t.is((await scene.run(...later)).exitCode, 0);
  t.is((await scene.run("reconcile")).exitCode, 0);
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
    await db.query(sql.typeAlias("void")`
      UPDATE meter_event SET state = ${state}, outcome_unknown = ${state === "blocked"}
    `);

    const acknowledged = await scene.run(...(await scene.findDifference()));

    t.is(acknowledged.exitCode, 1);
    t.regex(
      acknowledged.stderr,
      state === "sealed"
        ? /usage of that minute is pending; wait/u
        : /the processor may have meter event \d+, which may explain the difference; retry/u,
    );
    await db.query(
      sql.typeAlias("void")`UPDATE meter_event SET state = 'blocked', outcome_unknown = true`,
    );
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
  t.regex(acknowledged.stderr, /the processor may have meter event \d+, which may explain/u);
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
