import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { DELIVERED_LATE } from "../../../modules/billing/meterEvents.rules.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { readJson } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpRestore } from "./restoreSetup.ts";
import { setCustomer, listedEvent, setUpUsage } from "./usageSetup.ts";
import type { UsageSetup } from "./usageSetup.ts";

// Serial, because some tests retry the failed events of all accounts.
const test = testWithDatabase();

const UNKNOWN = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";
const REASON = ["--reason", "customer agreed", "--as", "ada"];

const results = z.array(
  z.strictObject({ id: z.string(), result: z.string(), reason: z.string().nullable() }),
);

test.serial(
  "a rejected event is retried by its id once its cause is fixed, and billed once",
  async (t) => {
    const scene = await setUpUsage(t);
    const registration = await scene.register(4);
    await scene.drain();
    const [failed] = await scene.failedEvents();
    await setCustomer(scene);
    const run = await scene.impact("usage", "retry", failed ?? "", "--json");
    t.is(run.exitCode, 0);
    t.deepEqual(readJson(run), [{ id: failed, result: "waiting", reason: null }]);
    await scene.drain();
    t.is(scene.billed(), 4);
    t.deepEqual(await scene.failedEvents(), []);
    const again = await scene.impact("usage", "retry", failed ?? "");
    t.is(again.exitCode, 1);
    t.regex(again.stdout, /superseded: there is nothing to retry/u);
    const byRegistration = await scene.impact("usage", "retry", registration);
    t.is(byRegistration.exitCode, 1);
    t.regex(byRegistration.stdout, /none of its usage has failed/u);
    t.is(scene.billed(), 4);
  },
);

test.serial(
  "a failed event is retried by its registration, and what remains after its refund is billed",
  async (t) => {
    const scene = await setUpUsage(t);
    const registration = await scene.register(7);
    await scene.drain();
    await scene.refund(registration, 3);
    await scene.drain();
    await setCustomer(scene);
    const run = await scene.impact("usage", "retry", registration);
    t.is(run.exitCode, 0);
    await scene.drain();
    t.is(scene.billed(), 4);
  },
);

test.serial("a retry that fails does not stop the others, and makes the exit code 1", async (t) => {
  const scene = await setUpUsage(t);
  await scene.register(2);
  await scene.drain();
  const [failed] = await scene.failedEvents();
  await setCustomer(scene);
  const run = await scene.impact("usage", "retry", UNKNOWN, "999999999", failed ?? "", "--json");
  t.is(run.exitCode, 1);
  const reported = results.parse(readJson(run));
  t.deepEqual(
    reported.map(({ id, result }) => [id, result]),
    [
      [UNKNOWN, "failed"],
      ["999999999", "failed"],
      [failed, "waiting"],
    ],
  );
  t.regex(run.stderr, /2 of 3 could not be retried/u);
  const onlyUnknown = await scene.impact("usage", "retry", UNKNOWN);
  t.is(onlyUnknown.exitCode, 3);
});

test.serial("--org retries the failed events of that organization only", async (t) => {
  const ours = await setUpUsage(t);
  const others = await setUpUsage(t);
  for (const scene of [ours, others]) {
    await scene.register(1);
    await scene.drain();
  }
  await setCustomer(ours);
  const run = await ours.impact("usage", "retry", "--org", ours.id);
  t.is(run.exitCode, 0);
  t.deepEqual(await ours.failedEvents(), []);
  t.is((await others.failedEvents()).length, 1);
  const nothing = await ours.impact("usage", "retry", "--org", ours.id);
  t.is(nothing.exitCode, 0);
  t.regex(nothing.stderr, /nothing to retry/u);
});

test.serial("--all retries every failed event once, even if it fails again", async (t) => {
  const scene = await setUpUsage(t);
  await scene.register(1);
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  const run = await scene.impact("usage", "retry", "--all", "--json");
  t.is(run.exitCode, 0);
  const retried = results.parse(readJson(run));
  t.true(retried.every(({ result }) => result === "waiting"));
  t.is(retried.filter(({ id }) => id === failed).length, 1);
  await scene.drain();
  const failedAgain = await scene.failedEvents();
  t.is(failedAgain.length, 1);
  t.not(failedAgain[0], failed);
});

/** Makes an attempt with an unknown outcome, and then one that is refused. Returns the id of the blocked event. */
const leaveUnknown = async (scene: UsageSetup): Promise<string> => {
  await setCustomer(scene);
  scene.double.control.addFault({ kind: "drop" });
  scene.double.control.addFault({
    kind: "respond",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "Refused for the test." } },
  });
  await scene.register(6);
  await scene.drain();
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  return failed;
};

test.serial("Stripe's sums decide whether usage of unknown outcome is sent again", async (t) => {
  const scene = await setUpUsage(t);
  const failed = await leaveUnknown(scene);
  const early = await scene.impact("usage", "retry", failed);
  t.is(early.exitCode, 1);
  t.regex(early.stdout, /may lag for another 15 minutes/u);
  const run = await scene.impactLater("usage", "retry", failed, "--json");
  t.is(run.exitCode, 0);
  t.deepEqual(readJson(run), [{ id: failed, result: "waiting", reason: null }]);
  await scene.drain();
  t.is(scene.billed(), 6);
});

test.serial("without Stripe's key, an unknown outcome needs --assume", async (t) => {
  const scene = await setUpUsage(t);
  const failed = await leaveUnknown(scene);
  const refused = await scene.impactWithoutStripe("usage", "retry", failed);
  t.is(refused.exitCode, 4);
  t.regex(refused.stdout, /STRIPE_SECRET_KEY is not set here/u);
  t.deepEqual(await scene.failedEvents(), [failed]);
  const run = await scene.impactWithoutStripe("usage", "retry", failed, "--assume", "delivered");
  t.is(run.exitCode, 0);
  await scene.drain();
  t.is(scene.billed(), 0);
  t.deepEqual(await scene.failedEvents(), []);
});

test.serial(
  "failed events are waived with a reason, and other ids are reported as failed",
  async (t) => {
    const scene = await setUpUsage(t);
    await scene.register(3);
    await scene.drain();
    const [failed = ""] = await scene.failedEvents();

    const without = await scene.impact("usage", "waive", failed);
    t.is(without.exitCode, 2);
    t.regex(without.stderr, /--reason/u);
    const run = await scene.impact(
      "usage",
      "waive",
      failed,
      "999999",
      "--reason",
      "too old",
      "--json",
    );
    t.is(run.exitCode, 1);
    t.deepEqual(readJson(run), [
      { id: failed, result: "waived", reason: null },
      {
        id: "999999",
        result: "failed",
        reason: "meter event 999999 not found; see `impact usage list`",
      },
    ]);
    t.deepEqual(await scene.failedEvents(), []);
    const listed = await scene.impact(
      "usage",
      "list",
      "--state",
      "waived",
      "--org",
      scene.id,
      "--json",
    );
    t.like(z.array(listedEvent).parse(readJson(listed))[0], { state: "waived", quantity: 3 });
    const unknown = await scene.impact("usage", "waive", "999999", "--reason", "x");
    t.is(unknown.exitCode, 3);
  },
);

test.serial(
  "failed usage that was invoiced by hand is settled once, and never sent again",
  async (t) => {
    const scene = await setUpUsage(t);
    const id = await scene.register(4);
    await scene.drain();
    const [event = ""] = await scene.failedEvents();
    const settle = (...document: readonly string[]) =>
      scene.impact("usage", "settle", event, ...document, ...REASON, "--json");

    t.is((await settle()).exitCode, 2);
    t.is((await settle("--invoice-item", "ii_1", "--credit-note", "cn_1")).exitCode, 2);
    t.like(readJson(await settle("--invoice-item", "ii_1")), { replayed: false });
    t.like(readJson(await settle("--invoice-item", "ii_1")), { replayed: true });
    t.is((await settle("--invoice-item", "ii_2")).exitCode, 1);
    t.is((await settle("--credit-note", "ii_1")).exitCode, 1);

    t.deepEqual(await scene.failedEvents(), []);
    await setCustomer(scene);
    const retry = await scene.impact("usage", "retry", event);
    t.is(retry.exitCode, 1);
    t.regex(retry.stdout, /was settled by hand with ii_1/u);
    await scene.drain();
    t.is(scene.billed(), 0);
    const shown = await scene.impact("usage", "show", id);
    t.regex(shown.stdout, /settled by hand +invoice item ii_1/u);
    t.regex(shown.stdout, /settled: customer agreed; before: No such customer/u);
    const statement = await scene.impact("statement", "--org", scene.id, "--period", scene.month);
    t.regex(statement.stdout, /tree +total +4 +0 +0 +0 +0 +0 +4 +0 +0\n/u);
  },
);

test.serial(
  "late usage that was invoiced by hand stays delivered, and other usage is refused",
  async (t) => {
    const scene = await setUpUsage(t);
    await setCustomer(scene);
    await scene.register(4);
    await scene.drain();
    const listed = await scene.impact("usage", "list", "--org", scene.id, "--json");
    const event = /"meter_event_id": (\d+)/u.exec(listed.stdout)?.[1] ?? "";
    const args = ["usage", "settle", event, "--invoice-item", "ii_9", ...REASON];
    const early = await scene.impact(...args);
    t.is(early.exitCode, 1);
    t.regex(early.stderr, /is delivered: there is nothing to settle by hand/u);
    await t.context.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET last_error = ${DELIVERED_LATE} WHERE id = ${event}
  `);
    t.is((await scene.impact(...args)).exitCode, 0);
    const late = await scene.impact("usage", "list", "--state", "late", "--json");
    t.deepEqual(readJson(late), []);
    t.is(
      (await scene.impact("usage", "settle", "999999", "--credit-note", "c", ...REASON)).exitCode,
      3,
    );
  },
);

for (const state of ["expired", "blocked", "waived", "held"] as const) {
  test.serial(`${state} usage that was settled by hand is never sent`, async (t) => {
    const scene = await setUpUsage(t);
    const { db } = t.context;
    const id = await scene.register(4);
    await scene.drain();
    const [failed = ""] = await scene.failedEvents();
    if (state === "held") {
      await scene.refund(id, 1);
      await scene.drain();
    } else {
      await db.query(sql.typeAlias("void")`
        UPDATE meter_event SET state = ${state}, outcome_unknown = ${state === "blocked"} WHERE id = ${failed}
      `);
    }
    const event = await db.oneFirst(sql.type(z.strictObject({ id: z.bigint() }))`
      SELECT id FROM meter_event WHERE account_id = ${scene.id} AND state = ${state}
    `);
    const document = state === "held" ? "--credit-note" : "--invoice-item";
    const args = ["usage", "settle", String(event), document, "doc_7", ...REASON];

    t.is((await scene.impact(...args)).exitCode, 0);
    t.regex((await scene.impact(...args)).stderr, /was already settled with doc_7/u);

    await setCustomer(scene);
    const retry = await scene.impactLater("usage", "retry", String(event));
    t.is(retry.exitCode, 1);
    t.regex(retry.stdout, /was settled by hand with doc_7/u);
    await scene.drain();
    t.is(scene.billed(), 0);
    const settled = await db.oneFirst(sql.type(z.strictObject({ state: z.string() }))`
      SELECT state FROM meter_event WHERE id = ${event}
    `);
    t.is(settled, "waived");
  });
}

test.serial("usage reopen sends usage again that Stripe lost, with --dry-run first", async (t) => {
  const scene = await setUpUsage(t);
  await setCustomer(scene);
  scene.double.control.addFault({ kind: "reject_later" });
  await scene.register(6);
  await scene.drain();
  const listed = await scene.impact("usage", "list", "--org", scene.id, "--json");
  const id = String(z.array(listedEvent).parse(readJson(listed))[0]?.meter_event_id);
  const args = ["usage", "reopen", id, "--reason", "lost", "--as", "ada"];
  t.is((await scene.impact(...args)).exitCode, 1);
  const checked = await scene.impactLater(...args, "--dry-run", "--json");
  t.is(checked.exitCode, 0, checked.stderr);
  t.deepEqual(readJson(checked), { meter_event_id: Number(id), result: "lost", quantity: 6 });
  const reopened = await scene.impactLater(...args);
  t.is(reopened.exitCode, 0, reopened.stderr);
  t.regex(reopened.stderr, /will send its 6 units again/u);
  await scene.drain();
  t.is(scene.billed(), 6);
  t.is((await scene.impactLater(...args)).exitCode, 1);
});

test.serial("waived usage that a lost history retried and sent is not billed twice", async (t) => {
  const { original, register, drain, impact, fork, control, pass, billedByMinute } =
    await setUpRestore(t);
  await register(original, 6);
  pass(5);
  control.addFault({ kind: "respond", status: 400, body: { error: { message: "refused" } } });
  await drain(original);
  const [failed] = z
    .array(listedEvent)
    .parse(readJson(await impact(original, "usage", "list", "--state", "failed", "--json")));
  const id = String(failed?.meter_event_id);
  t.is((await impact(original, "usage", "waive", id, ...REASON)).exitCode, 0);
  const { continued, restored } = await fork(original);
  t.is((await impact(continued, "usage", "retry", id)).exitCode, 0);
  await drain(continued);
  t.deepEqual(billedByMinute(), { 0: 6 });
  // Stripe has forgotten the idempotency keys and identifiers.
  pass(3 * 24 * 60 * 60);

  await guardUsage(restored.deps);
  pass(16 * 60);
  const settled = await impact(restored, "usage", "compare-and-release");
  t.is(settled.exitCode, 0, settled.stderr);
  const retried = await impact(restored, "usage", "retry", id, "--json");
  t.deepEqual(results.parse(readJson(retried)), [{ id, result: "delivered", reason: null }]);
  await drain(restored);

  t.deepEqual(billedByMinute(), { 0: 6 });
});
