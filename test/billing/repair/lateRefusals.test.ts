import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { DELIVERED_LATE } from "../../../modules/billing/meterEvents.rules.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { applyRejectionReport } from "../../../modules/billing/processorEvents/applyRejectionReport.ts";
import { readJson } from "../../cli/runImpact.ts";
import { setUpRestore } from "./restoreSetup.ts";

const DAY = 24 * 60 * 60;
const LAG_SECONDS = 16 * 60;

type Opened = Awaited<ReturnType<typeof setUpRestore>>["original"];

const identifierRow = z.object({ identifier: z.string() });

const identifiersIn = ({ db }: Opened): Promise<readonly string[]> =>
  db.anyFirst(sql.type(identifierRow)`SELECT identifier FROM meter_event ORDER BY id`);

const statesIn = ({ db }: Opened): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.object({ state: z.string() }))`SELECT state FROM meter_event ORDER BY id`);

/** Applies the report of all events, which ended some seconds ago, as a worker does repeatedly. */
const applyReport = async (opened: Opened, endedBeforeSeconds = 0): Promise<void> => {
  const { deps } = opened;
  const now = deps.clock.now();
  const endedAt = new Date(now.getTime() - endedBeforeSeconds * 1000);
  const event = { id: "evt_1", type: "v1.billing.meter.error_report_triggered", objectId: null };
  await insertProcessorEvent(deps.db, { ...event, createdAt: now }, now);
  const identifiers = await identifiersIn(opened);
  const samples = identifiers.map((identifier) => ({ identifier, message: "refused" }));
  await applyRejectionReport({ ...deps, observeRejection: () => undefined }, event.id, {
    windowStart: endedAt,
    windowEnd: endedAt,
    rejections: [{ code: "archived_meter", errors: samples.length, samples }],
  });
};

/** A restored database that lacks the retry of 6 units which Stripe had refused later. The comparison has ended its hold. */
const setUpRefused = async (t: ExecutionContext) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass, control, fork, impact, original } = scene;
  await register(original, 6);
  pass(5);
  control.addFault({ kind: "reject_later" });
  await drain(original);
  const id = await original.db.oneFirst(
    sql.type(z.object({ id: z.bigint() }))`SELECT id FROM meter_event`,
  );
  const { continued, restored } = await fork(original);
  const retry = async (opened: Opened): Promise<unknown> =>
    readJson(await impact(opened, "usage", "retry", String(id), "--json"));
  await applyReport(continued);
  t.like(await retry(continued), [{ result: "waiting" }]);
  await drain(continued);
  t.deepEqual(scene.billedByMinute(), { 0: 6 });
  // Stripe has forgotten the idempotency keys and identifiers.
  pass(3 * DAY);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  t.is((await impact(restored, "usage", "compare-and-release")).exitCode, 0);
  return {
    ...scene,
    restored,
    report: () => applyReport(restored),
    waive: async () => {
      await impact(restored, "usage", "waive", String(id), "--reason", "too old");
      // The sums of what was sent before it lag.
      pass(LAG_SECONDS);
    },
    retry: () => retry(restored),
    states: () => statesIn(restored),
  };
};

for (const [when, isWaived] of [
  ["after the comparison", false],
  ["after a waiver", true],
] as const) {
  test(`usage that Stripe refused later, and that a lost history has retried, is not billed twice ${when}`, async (t) => {
    const { restored, report, waive, retry, drain, billedByMinute } = await setUpRefused(t);

    await report();
    if (isWaived) {
      await waive();
    }

    t.like(await retry(), [{ result: "delivered" }]);
    await drain(restored);
    t.deepEqual(billedByMinute(), { 0: 6 });
  });
}

test("a report that waits for one event does not undo the retry of another that it names", async (t) => {
  const scene = await setUpRefused(t);
  const { restored, report, retry, drain, control, pass, states } = scene;
  await scene.register(restored, 2);
  pass(5);
  // Accepted and refused later, but the response is lost.
  control.addFault({ kind: "drop", applied: true });
  await drain(restored);
  const [, identifier = ""] = await identifiersIn(restored);
  control.rejectAccepted({ identifier });
  await t.throwsAsync(report(), { message: /still being sent/u });
  t.deepEqual(await states(), ["blocked", "sending"]);
  t.like(await retry(), [{ result: "delivered" }]);

  await t.throwsAsync(report(), { message: /still being sent/u });

  t.deepEqual(await states(), ["delivered", "sending"]);
  // Stripe recognizes the identifier, so the other event counts as delivered.
  pass(LAG_SECONDS);
  t.is((await drain(restored)).kind, "done");
  await report();
  t.deepEqual(await states(), ["delivered", "blocked"]);
  t.deepEqual(scene.billedByMinute(), { 0: 6 });
});

test("usage that Stripe refused later is not waived if a lost history may have sent a refund of it", async (t) => {
  const scene = await setUpRestore(t);
  const { original, register, pass, drain, control, impact } = scene;
  const registrationId = await register(original, 10);
  pass(5);
  await drain(original);
  await scene.refund(original, registrationId, 3);
  control.addFault({ kind: "respond", status: 400, body: { error: { message: "refused" } } });
  await drain(original);
  t.deepEqual(await statesIn(original), ["delivered", "rejected"]);
  const { continued, restored } = await scene.fork(original);
  t.is((await impact(continued, "usage", "retry", "--all")).exitCode, 0);
  await drain(continued);
  const [identifier = ""] = await identifiersIn(restored);
  control.rejectAccepted({ identifier });
  t.deepEqual(scene.billedByMinute(), { 0: -3 });
  pass(3 * DAY);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  t.is((await impact(restored, "usage", "compare-and-release")).exitCode, 0);
  await applyReport(restored);
  t.deepEqual(await statesIn(restored), ["blocked", "rejected"]);
  const usageId = await restored.db.oneFirst(
    sql.type(z.object({ id: z.bigint() }))`SELECT id FROM meter_event WHERE quantity > 0`,
  );

  const waived = await impact(restored, "usage", "waive", String(usageId), "--reason", "too old");

  t.is(waived.exitCode, 1);
  t.regex(waived.stdout, /refunds of 3 units of it/u);
});

test("late usage that was settled by hand stays settled when Stripe refuses it afterwards", async (t) => {
  const { register, pass, drain, control, stream, ...scene } = await setUpRestore(t);
  const { original } = scene;
  const impact = (...args: readonly string[]) => scene.impact(original, ...args);
  await register(original, 4);
  pass(5);
  control.addFault({ kind: "reject_later" });
  await drain(original);
  const id = await original.db.oneFirst(sql.type(z.object({ id: z.bigint() }))`
    UPDATE meter_event SET last_error = ${DELIVERED_LATE} RETURNING id
  `);
  const settle = ["usage", "settle", String(id), "--invoice-item", "ii_1", "--reason", "late"];
  t.is((await impact(...settle)).exitCode, 0);
  t.deepEqual(await statesIn(original), ["delivered"]);

  await applyReport(original);

  t.deepEqual(await statesIn(original), ["waived"]);
  pass(LAG_SECONDS);
  const period = ["--org", stream.accountId, "--period", "2026-05"];
  const statement = await impact("statement", ...period);
  t.is(statement.exitCode, 0, statement.stderr);
  t.regex(statement.stdout, /tree +total +4 +0 +0 +0 +0 +0 +4 +0 +0\n/u);
  t.deepEqual(readJson(await impact("usage", "list", "--state", "failed", "--json")), []);
  const retried = await impact("usage", "retry", "--all");
  t.is(retried.exitCode, 0, retried.stdout);
  t.like(readJson(await impact(...settle, "--json")), { replayed: true });
  t.is((await impact("usage", "reconcile")).exitCode, 0);
});

test("a report from before a delivered event was first sent is not about it, and waits while it is being sent", async (t) => {
  const { original, register, pass, drain, control } = await setUpRestore(t);
  await register(original, 4);
  pass(5);
  control.addFault({ kind: "respond", status: 429, body: { error: { message: "later" } } });
  await drain(original);
  pass(60);
  t.deepEqual(await statesIn(original), ["sending"]);
  await t.throwsAsync(applyReport(original, DAY), { message: /still being sent/u });
  await drain(original);

  await applyReport(original, DAY);

  t.deepEqual(await statesIn(original), ["delivered"]);
});

test("a report from before an event was first sent blocks it if the lost history has sent it", async (t) => {
  const { original, register, pass, drain, control, fork, impact } = await setUpRestore(t);
  await register(original, 4);
  pass(5);
  const { continued, restored } = await fork(original);
  await drain(continued);
  pass(10 * 60);
  t.is((await impact(restored, "usage", "release")).exitCode, 0);
  await drain(restored);
  pass(LAG_SECONDS);
  await drain(restored);
  t.deepEqual(await statesIn(restored), ["delivered"]);
  const [identifier = ""] = await identifiersIn(restored);
  control.rejectAccepted({ identifier });

  await applyReport(restored, LAG_SECONDS + 10 * 60);

  t.deepEqual(await statesIn(restored), ["blocked"]);
});
