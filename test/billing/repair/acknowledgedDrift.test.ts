import test from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { DELIVERED_LATE } from "../../../modules/billing/meterEvents.rules.ts";
import { holdUsage } from "../../../modules/billing/holdUsage.ts";
import { readJson } from "../../cli/runImpact.ts";
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

test("a correction takes back no usage of a minute in which usage has failed since drift was acknowledged", async (t) => {
  const scene = await setUpAcknowledged(t, [7, 5], { lost: [1] });
  await scene.report(1);
  const restoredAt = new Date(NOON * 1000).toISOString();
  const options = ["--restored-at", restoredAt, "--reason", "failover", "--json"];

  const corrected = readJson(await scene.run("correct", ...options));

  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 7 });
  t.like(corrected, { corrections: [{ action: "wait" }] });
  t.like(await scene.retry(1), [{ result: "delivered" }]);
  t.like(readJson(await scene.run("correct", ...options)), { corrections: [] });
});

const settledRow = z.object({ last_error: z.string(), settled_at: z.date() });

test("a refusal that leaves settled usage delivered is in the event's last error", async (t) => {
  const scene = await setUpMinute(t, [5, 7], { lost: [0] });
  const { original } = scene;
  const settled = () =>
    original.db.one(sql.type(settledRow)`
      SELECT last_error, settled_at FROM meter_event WHERE quantity = 5
    `);
  await original.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET last_error = ${DELIVERED_LATE} WHERE quantity = 5
  `);
  t.is((await scene.settle(0)).exitCode, 0);
  scene.pass(LAG_SECONDS);
  t.is((await scene.run(...(await scene.findDifference()))).exitCode, 0);
  const before = await settled();

  await scene.report(0);

  t.deepEqual(await scene.states(), ["delivered", "delivered"]);
  const after = await settled();
  t.regex(
    after.last_error,
    /^refused after it was delivered at \S+: archived_meter: refused; before: settled: billed by hand/u,
  );
  await scene.report(0);
  t.deepEqual(await settled(), after);
  // A later time would count as a delivery that the sums may lack.
  t.deepEqual(after.settled_at, before.settled_at);
});

test("reconciliation does not advise to reopen a part of an event, because its facts are in a later one", async (t) => {
  const scene = await setUpMinute(t, [10], { lost: [0] });
  await scene.block(0);
  await scene.reportElsewhere(4, NOON);
  t.like(await scene.retry(0), [{ result: "waiting" }]);
  await scene.drain(scene.original);
  t.deepEqual(scene.billed(), { 0: 10 });
  await scene.reportElsewhere(-4, NOON);
  scene.pass(LAG_SECONDS);

  const reconciled = await scene.run("reconcile");

  t.is(reconciled.exitCode, 1);
  t.notRegex(reconciled.stderr, /usage reopen/u);
  t.regex(reconciled.stderr, /acknowledge-drift/u);
});

test("reconciliation does not advise to reopen usage that was settled by hand", async (t) => {
  const scene = await setUpMinute(t, [5], { lost: [0] });
  await scene.original.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET last_error = ${DELIVERED_LATE}
  `);
  t.is((await scene.settle(0)).exitCode, 0);
  scene.pass(LAG_SECONDS);

  const reconciled = await scene.run("reconcile");

  t.is(reconciled.exitCode, 1);
  t.notRegex(reconciled.stderr, /usage reopen/u);
});
