import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { correctFailover } from "../../../modules/billing/reconciliation/correctFailover.ts";
import {
  countCorrections,
  LAG_SECONDS,
  REASON,
  RESTORED_AT,
  CORRECT,
  setUpFailover,
  summaryOf,
} from "./failoverSetup.ts";
import { NOON } from "./restoreSetup.ts";

const DAY = 24 * 60 * 60;

test("what Stripe does not correct any more needs a credit note of the customer", async (t) => {
  const scene = await setUpFailover(t);
  const { impact, restored, pass, drain, billedByMinute, lost, stream } = scene;
  pass(34 * DAY);
  const needed = await impact(restored, ...CORRECT, ...REASON, "--json");
  t.is(needed.exitCode, 1);
  t.deepEqual(summaryOf(needed), [
    [1, "document_needed", -24],
    [2, "document_needed", -7],
  ]);
  t.regex(needed.stdout, /older than Stripe corrects; give --credit-note/u);
  t.regex(
    needed.stderr,
    /^Test Organization \(cus_\w+\), tree: a credit note of -31 units is needed\.$/mu,
  );
  const credit = [...CORRECT, ...REASON, "--credit-note", "cn_1", "--units", "-31"];
  const ofOne = ["--org", stream.accountId];
  t.is((await impact(restored, ...credit)).exitCode, 2);
  t.is((await impact(restored, ...credit.slice(0, -2), ...ofOne)).exitCode, 2);
  t.is((await impact(restored, ...CORRECT, ...REASON, "--units", "-31", ...ofOne)).exitCode, 2);

  const settled = await impact(restored, ...credit, ...ofOne, "--json");

  t.is(settled.exitCode, 0, settled.stderr);
  t.deepEqual(summaryOf(settled), [
    [1, "settle", -24],
    [2, "settle", -7],
  ]);
  await drain(restored);
  t.deepEqual(billedByMinute(), lost);
  const repeated = await impact(restored, ...credit, ...ofOne, "--json");
  t.deepEqual(summaryOf(repeated), []);
  const statement = await impact(
    restored,
    "statement",
    "--org",
    stream.accountId,
    "--period",
    "2026-05",
  );
  t.regex(statement.stdout, /tree +total +62 +0 +93 +0 +0 +0 +-31 +0 +0\n/u);
});

test("a credit note does not settle a minute that became ready after it was issued", async (t) => {
  const { impact, restored, pass, stream } = await setUpFailover(t);
  pass(34 * DAY);
  const id = await restored.db.oneFirst(sql.type(z.object({ id: z.bigint() }))`
    UPDATE meter_event
    SET state = 'blocked', outcome_unknown = true
    WHERE second >= ${NOON + 60} AND second < ${NOON + 120}
    RETURNING id
  `);
  const correct = (...document: readonly string[]) =>
    impact(restored, ...CORRECT, ...REASON, "--org", stream.accountId, "--json", ...document);
  t.deepEqual(summaryOf(await correct("--dry-run")), [
    [1, "wait", null],
    [2, "document_needed", -7],
  ]);
  t.is((await impact(restored, "usage", "retry", String(id))).exitCode, 0);
  pass(LAG_SECONDS);

  for (const only of [[], ["--dry-run"]]) {
    const refused = await correct("--credit-note", "cn_1", "--units", "-7", ...only);
    t.is(refused.exitCode, 1);
    t.regex(refused.stderr, /that cn_1 settles have -31 units, not -7; 0 of them are recorded/u);
  }
  t.is(await countCorrections(restored), 0);

  const settled = await correct("--credit-note", "cn_1, cn_2", "--units", "-31");
  t.is(settled.exitCode, 0, settled.stderr);
  t.deepEqual(summaryOf(settled), [
    [1, "settle", -24],
    [2, "settle", -7],
  ]);
});

/** A failover with two minutes that need a credit note of 31 units. The run with it was killed after the first minute. */
const setUpInterrupted = async (t: ExecutionContext) => {
  const scene = await setUpFailover(t);
  const { impact, restored, pass, stream } = scene;
  pass(34 * DAY);
  const { deps } = restored;
  let transactions = 0;
  const transaction: typeof deps.db.transaction = (...args) => {
    transactions += 1;
    if (transactions > 1) {
      throw new Error("the process was killed");
    }
    return deps.db.transaction(...args);
  };
  const interrupted = correctFailover(
    { ...deps, db: { ...deps.db, transaction } },
    {
      restoredAt: new Date(RESTORED_AT),
      accountId: stream.accountId,
      includeLostRefunds: false,
      document: { kind: "credit_note", reference: "cn_1", units: -31 },
      reason: "failover",
      operator: "ada",
      isDryRun: false,
    },
    new AbortController().signal,
  );
  await t.throwsAsync(interrupted, { message: "the process was killed" });
  t.is(await countCorrections(restored), 1);
  return {
    ...scene,
    correct: (reference: string, units: string) => {
      const document = ["--org", stream.accountId, "--credit-note", reference, "--units", units];
      return impact(restored, ...CORRECT, ...REASON, ...document, "--json");
    },
  };
};

test("a run with a credit note that was interrupted is continued by the same command", async (t) => {
  const { restored, correct } = await setUpInterrupted(t);

  t.deepEqual(summaryOf(await correct("cn_1", "-31")), [[2, "settle", -7]]);

  const repeated = await correct("cn_1", "-31");
  t.is(repeated.exitCode, 0, repeated.stderr);
  t.deepEqual(summaryOf(repeated), []);
  t.is(await countCorrections(restored), 2);
});

test("two credit notes continue an interrupted run of the first with the sum of their units", async (t) => {
  const { restored, correct, reportElsewhere, pass } = await setUpInterrupted(t);
  await reportElsewhere(2, NOON + 180);
  pass(LAG_SECONDS);
  const refused = await correct("cn_1", "-31");
  t.is(refused.exitCode, 1);
  t.regex(
    refused.stderr,
    /cn_1 settles have -33 units, not -31; -24 of them are recorded already, and nothing was recorded now"/u,
  );
  t.is(await countCorrections(restored), 1);

  t.deepEqual(summaryOf(await correct("cn_1,cn_2", "-33")), [
    [2, "settle", -7],
    [3, "settle", -2],
  ]);

  const repeated = await correct("cn_2, cn_1", "-33");
  t.is(repeated.exitCode, 0, repeated.stderr);
  t.is((await correct("cn_2", "-2")).exitCode, 1);
  t.is(await countCorrections(restored), 3);
});
