import test from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import type { BillingProcessor } from "../../../modules/billing/processor.ts";
import type { FailoverOptions } from "../../../modules/billing/reconciliation/correctFailover.ts";
import { correctFailover } from "../../../modules/billing/reconciliation/correctFailover.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { drainUsage } from "../drainUsage.ts";
import { readJson } from "../../cli/runImpact.ts";
import { callDouble } from "../stripe/doubleScene.ts";
import {
  countCorrections,
  LAG_SECONDS,
  REASON,
  RESTORED_AT,
  CORRECT,
  setUpFailover,
  summaryOf,
} from "./failoverSetup.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const OPTIONS: FailoverOptions = {
  restoredAt: new Date(RESTORED_AT),
  accountId: null,
  includeLostRefunds: false,
  document: null,
  reason: "failover",
  operator: "ada",
  isDryRun: false,
};

test("what a failover lost is taken back once, and clients that repeat their keys are billed once", async (t) => {
  const scene = await setUpFailover(t);
  const { impact, restored, register, drain, pass, billedByMinute, minuteNow } = scene;
  t.deepEqual(billedByMinute(), scene.lost);

  const proposed = await impact(restored, ...CORRECT, "--dry-run", "--json");
  t.is(proposed.exitCode, 0, proposed.stderr);
  t.deepEqual(summaryOf(proposed), [
    [1, "send", -24],
    [2, "send", -7],
  ]);
  t.regex(proposed.stderr, /2 corrections proposed; nothing was changed/u);
  t.deepEqual(summaryOf(await impact(restored, ...CORRECT, "--dry-run", "--json")), [
    [1, "send", -24],
    [2, "send", -7],
  ]);

  const recorded = await impact(restored, ...CORRECT, ...REASON);
  t.is(recorded.exitCode, 0, recorded.stderr);
  t.regex(recorded.stderr, /Recorded 2 corrections/u);
  // Before the corrections are sent, after that, and when the sums show them.
  t.deepEqual(summaryOf(await impact(restored, ...CORRECT, ...REASON, "--json")), []);
  await register(restored, 24, "order-1");
  const repeatedIn = minuteNow();
  pass(5);
  t.is((await drain(restored)).kind, "done");
  t.deepEqual(summaryOf(await impact(restored, ...CORRECT, ...REASON, "--json")), []);
  pass(LAG_SECONDS);
  t.deepEqual(summaryOf(await impact(restored, ...CORRECT, ...REASON, "--json")), []);
  t.deepEqual(billedByMinute(), { ...scene.corrected, [repeatedIn]: 24 });
  t.deepEqual(await scene.driftOf(), [0]);
  t.deepEqual(scene.control.problems(), []);

  const statement = await impact(
    restored,
    "statement",
    "--org",
    scene.stream.accountId,
    "--period",
    "2026-05",
    "--json",
  );
  t.regex(statement.stdout, /"registered": 86/u);
  const log = await impact(restored, "audit", "list", "--json");
  t.is([...log.stdout.matchAll(/"usage.correct"/gu)].length, 2);
  const audit = await restored.db.any(sql.type(
    z.strictObject({ quantity: z.bigint(), reason: z.string(), by: z.string() }),
  )`
    SELECT quantity, reason, corrected_by AS by FROM usage_correction ORDER BY second
  `);
  t.deepEqual(audit, [
    { quantity: 24n, reason: "failover", by: "ada" },
    { quantity: 7n, reason: "failover", by: "ada" },
  ]);
});

/** At which read of a sum, counted from the last one. */
for (const [place, fromLast] of [
  ["between two corrections", 1],
  ["before the first correction", 2],
] as const) {
  test(`a run that broke off ${place} is continued by the next one`, async (t) => {
    const { restored, drain, billedByMinute, corrected } = await setUpFailover(t);
    const { deps } = restored;
    const stripe = deps.billing.findProcessor("stripe", "live") ?? t.fail();
    let reads = 0;
    let readsBeforeFailure = Infinity;
    const sumUsage: BillingProcessor["sumUsage"] = (...args) => {
      reads += 1;
      if (reads > readsBeforeFailure || typeof stripe !== "object") {
        throw new Error("the process was killed");
      }
      return stripe.sumUsage(...args);
    };
    const breaking = {
      ...deps,
      billing: {
        ...deps.billing,
        findProcessor: () => (typeof stripe === "object" ? { ...stripe, sumUsage } : null),
      },
    };
    await correctFailover(breaking, { ...OPTIONS, isDryRun: true }, new AbortController().signal);
    readsBeforeFailure = reads - fromLast;
    reads = 0;

    await t.throwsAsync(correctFailover(breaking, OPTIONS, new AbortController().signal), {
      message: "the process was killed",
    });
    t.is(await countCorrections(restored), fromLast === 1 ? 1 : 0);
    await correctFailover(deps, OPTIONS, new AbortController().signal);

    t.is(await countCorrections(restored), 2);
    await drain(restored);
    t.deepEqual(billedByMinute(), corrected);
  });
}

test("two runs at the same time record each correction once", async (t) => {
  const scene = await setUpFailover(t);
  const { restored, drain, billedByMinute, corrected } = scene;
  const correct = () => correctFailover(restored.deps, OPTIONS, new AbortController().signal);

  await Promise.all(Array.from({ length: 4 }, correct));

  t.is(await countCorrections(restored), 2);
  await drain(restored);
  t.deepEqual(billedByMinute(), corrected);
});

test("a correction goes to the customer that was billed, also if the account changes its customer", async (t) => {
  const scene = await setUpFailover(t);
  const { impact, restored, drain, billedByMinute, corrected, control } = scene;
  await impact(restored, ...CORRECT, ...REASON);
  const { customerId } = control.addCustomer({});
  await impact(restored, "org", "update", scene.stream.accountId, "--stripe-customer", customerId);

  await drain(restored);

  t.deepEqual(billedByMinute(), corrected);
  t.deepEqual(control.usage({ customerId }), []);
});

test("an organization that was lost is created again with its customer, and its usage is taken back", async (t) => {
  const { impact, restored, control, double } = await setUpFailover(t);
  const { customerId } = control.addCustomer({});
  const accepted = await callDouble(double, "POST", "/v1/billing/meter_events", {
    event_name: "impact_tree_planted",
    "payload[stripe_customer_id]": customerId,
    "payload[value]": "12",
    timestamp: String(NOON + 90),
  });
  t.is(accepted.status, 200);
  t.is(summaryOf(await impact(restored, ...CORRECT, "--dry-run", "--json")).length, 2);

  const create = ["org", "create", "--name", "Lost", "--stripe-customer", customerId, "--json"];
  const created = readJson(await impact(restored, ...create));
  const { id: accountId } = z.looseObject({ id: z.uuid() }).parse(created);
  const corrected = await impact(restored, ...CORRECT, ...REASON, "--json");

  t.true(summaryOf(corrected).some(([minute, , units]) => minute === 1 && units === -12));
  await drainUsage(
    restored.deps,
    { accountId, mode: "live", kind: "tree" },
    { signal: new AbortController().signal, onResult: () => undefined },
  );
  t.is(
    control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0),
    0,
  );
});

test("a rejected correction can be retried", async (t) => {
  const { impact, restored, drain, billedByMinute, corrected, control } = await setUpFailover(t);
  await impact(restored, ...CORRECT, ...REASON);
  control.addFault({
    kind: "respond",
    times: 2,
    status: 400,
    body: { error: { type: "invalid_request_error", message: "No such customer" } },
  });
  await drain(restored);
  control.clearFaults();
  const failed = await impact(restored, "usage", "list", "--state", "failed", "--json");
  t.is(z.array(z.unknown()).parse(readJson(failed)).length, 2);

  const retried = await impact(restored, "usage", "retry", "--all");

  t.is(retried.exitCode, 0, retried.stdout);
  await drain(restored);
  t.deepEqual(billedByMinute(), corrected);
});

test("usage that is still to be sent is not corrected", async (t) => {
  const scene = await setUpFailover(t);
  const { impact, restored, register, pass, drain, control } = scene;
  await register(restored, 5);
  const second = control.now();
  // Another program has reported units of the customer in the same minute.
  await scene.reportElsewhere(3, second);
  pass(LAG_SECONDS);
  const pending = await impact(restored, ...CORRECT, ...REASON, "--json");
  t.is(pending.exitCode, 1);
  const minute = Math.floor((second - NOON) / 60);
  t.deepEqual(summaryOf(pending).at(-1), [minute, "wait", null]);
  await drain(restored);
  const lagging = await impact(restored, ...CORRECT, ...REASON, "--json");
  t.deepEqual(summaryOf(lagging), [[minute, "wait", null]]);
  t.regex(lagging.stdout, /the processor's sum may lag until/u);
  pass(LAG_SECONDS);
  t.deepEqual(summaryOf(await impact(restored, ...CORRECT, ...REASON, "--json")), [
    [minute, "send", -3],
  ]);
});

test("a lost refund is billed again only on request, and its repetition takes it back once", async (t) => {
  const scene = await setUpRestore(t);
  const { register, refund, drain, pass, impact, billedByMinute } = scene;
  await register(scene.original, 1);
  // The correction of the minute is in its first second, so the repeated refund has the lost one's identifier.
  pass(1);
  const id = await register(scene.original, 9);
  pass(5);
  await drain(scene.original);
  const { continued, restored } = await scene.fork(scene.original);
  pass(3600);
  await refund(continued, id, 4);
  pass(5);
  await drain(continued);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  await impact(restored, "usage", "compare-and-release");
  t.deepEqual(billedByMinute(), { 0: 6 });
  const restoredAt = new Date((NOON + 3600) * 1000).toISOString();
  const correct = (...options: readonly string[]) =>
    impact(
      restored,
      "usage",
      "correct",
      "--restored-at",
      restoredAt,
      ...REASON,
      "--json",
      ...options,
    );

  t.deepEqual(summaryOf(await correct()), []);
  t.deepEqual(summaryOf(await correct("--include-lost-refunds")), [[0, "send", 4]]);
  t.deepEqual(summaryOf(await correct("--include-lost-refunds")), []);
  await drain(restored);
  t.deepEqual(billedByMinute(), { 0: 10 });

  await refund(restored, id, 4);
  t.like(await drain(restored), { kind: "delayed", cause: "in_doubt" });
  pass(LAG_SECONDS);
  await drain(restored);
  t.deepEqual(billedByMinute(), { 0: 6 });
});

test("usage settle and usage correct say what they need", async (t) => {
  const { impact, original } = await setUpRestore(t);
  const refuses = async (message: RegExp, exitCode: number, ...args: readonly string[]) => {
    const run = await impact(original, ...args);
    t.is(run.exitCode, exitCode, run.stderr);
    t.regex(run.stderr, message);
  };
  await refuses(/missing required argument 'id'/u, 2, "usage", "settle", ...REASON);
  await refuses(
    /'--reason <text>' not specified/u,
    2,
    "usage",
    "settle",
    "1",
    "--credit-note",
    "cn_1",
  );
  await refuses(/--invoice-item or --credit-note/u, 2, "usage", "settle", "1", ...REASON);
  await refuses(/unknown option '--dry-run'/u, 2, "usage", "settle", "1", "--dry-run", ...REASON);
  await refuses(/'--restored-at <time>' not specified/u, 2, "usage", "correct", ...REASON);
  await refuses(/too many arguments/u, 2, "usage", "correct", "1", "--restored-at", RESTORED_AT);
  await refuses(/Pass --reason/u, 2, ...CORRECT);
  await refuses(/may lag for 15 minutes/u, 1, ...CORRECT, "--dry-run");
  await impact(original, "usage", "hold", "--reason", "drill");
  const early = ["usage", "correct", "--restored-at", "2026-05-01", "--dry-run"];
  await refuses(/usage compare-and-release` first/u, 1, ...early);
});
