import { listAuditEntries } from "../../../modules/accounts/auditEntries.sql.ts";
import { countUsageAttention } from "../../../modules/billing/meterEventReports.sql.ts";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { holdUsage, readRestoreProgress } from "../../../modules/billing/holdUsage.ts";
import { LONGEST_USAGE_LAG_MS } from "../../../modules/billing/usage.rules.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { FORGOTTEN_SECONDS, INVOICE_ITEM, testRepairs } from "./testRepairs.ts";
import type { Operator } from "./testRepairs.ts";
import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { asOwner, copyDatabase, openTestPool } from "../../support/database.ts";
import { createSavedDatabase } from "../../support/savedDatabase.ts";
import { LAG_SECONDS } from "../convergence/world.ts";

const test = testRepairs();

const accountOf = (operator: Operator, place = 0): string => operator.accountIds[place] ?? "";

const sealOnly = async (operator: Operator): Promise<void> => {
  operator.pass(5);
  operator.control.addFault({ kind: "server_error" });
  await operator.world.send();
};

const INSTANTS = {
  "before it was sealed": () => Promise.resolve(),
  "after it was sealed, and before Stripe accepted it": sealOnly,
  "after an attempt of unknown outcome": async (operator: Operator) => {
    operator.pass(5);
    operator.control.addFault({ kind: "drop", applied: true });
    await operator.world.send();
  },
  "after it was refused": async (operator: Operator) => {
    operator.control.addFault(REFUSED);
    await operator.send();
  },
  "after it was delivered": (operator: Operator) => operator.send(),
} as const;

for (const [instant, prepare] of Object.entries(INSTANTS)) {
  for (const isSent of [true, false]) {
    test(`usage is billed once after a restore to an instant ${instant}, if the lost history ${isSent ? "has sent" : "has not sent"} it`, async (t, operator) => {
      await operator.register(accountOf(operator), 6);
      await prepare(operator);
      await operator.restore(async () => {
        if (isSent) {
          await operator.retryAll();
          operator.pass(60);
          await operator.settle();
        }
        operator.pass(FORGOTTEN_SECONDS);
      });
      const sends = operator.sends();
      await operator.send();
      t.is(operator.sends(), sends, "usage is held");
      t.truthy((await operator.resume()).doubtedUntil);
      t.is((await operator.resume()).hold, null, "it can be repeated");
      await operator.register(accountOf(operator), 1);
      await operator.settle();
      await operator.retryAll();
      await operator.settle();

      t.deepEqual([...new Set(await operator.states())], ["delivered"]);
    });
  }
}

test("usage that is registered after a restore is sent at once", async (t, operator) => {
  await operator.register(accountOf(operator), 6);
  await operator.restore(() => operator.send());
  await operator.resume();
  operator.pass(60);
  await operator.sendNew(3);
  t.deepEqual(operator.billed(), { 0: 6, 1: 3 });
  t.like(await countUsageAttention(operator.deps().db), [{ cause: "asking", items: 1 }]);
  await operator.settle();
});

test("a lost organization's usage is found again when it is created with its customer", async (t, operator) => {
  await operator.restore(async () => {
    await operator.register(await operator.addAccount(operator.customerIds[4] ?? null), 5);
    await operator.send();
    operator.accountIds.pop();
  });
  await operator.resume();
  await operator.addAccount(operator.customerIds[4] ?? null);
  t.is((await operator.reconcile()).length, 1);
  await operator.retryAll();
  await operator.send();
  t.is(operator.billedTo(4), 0);
});

test("usage that a lost history closed is failed again, and closed with the same document", async (t, operator) => {
  const event = await operator.fail(4);
  await operator.restore(async () => {
    await operator.close([event], { document: INVOICE_ITEM });
  });
  operator.billBy([event]);
  await operator.resume();
  t.deepEqual(await operator.states(), ["refused"]);
  await operator.close([event], { document: INVOICE_ITEM });
  await operator.settle();
  t.deepEqual(operator.billed(), {});
});

test("a restore during a hold holds usage again, and its end asks about what the lost history sent", async (t, operator) => {
  await operator.register(accountOf(operator), 6);
  await holdUsage(operator.deps(), { reason: "maintenance", by: "ada" });
  const before = (await readDeployment(operator.deps().db)).hold;
  await operator.restore(async () => {
    await operator.resume();
    await operator.send();
    operator.pass(FORGOTTEN_SECONDS);
  });
  const { hold } = await readDeployment(operator.deps().db);
  t.is(hold?.by, "restore guard");
  t.true((hold?.at ?? 0) > (before?.at ?? 0));
  await operator.resume();
  await operator.settle();
  t.deepEqual(operator.billed(), { 0: 6 });
});

test("if nothing was lost, usage is sent without a question", async (t, operator) => {
  await operator.register(accountOf(operator), 6);
  await operator.restore();
  await operator.register(accountOf(operator), 2);
  const before = await readDeployment(operator.deps().db);
  await operator.resume({ history: "nothing_lost", isDryRun: true });
  t.deepEqual(await readDeployment(operator.deps().db), before);
  t.is((await operator.resume({ history: "nothing_lost" })).doubtedUntil, null);
  await operator.send();
  t.is(operator.billedTo(0), 8);
  t.is((await readDeployment(operator.deps().db)).doubtedUntil, null);
});

test("an operator's later hold does not renew the doubt of a restore", async (t, operator) => {
  await operator.restore();
  await operator.resume();
  operator.pass(LAG_SECONDS);
  await operator.register(accountOf(operator), 6);
  operator.pass(60);
  await holdUsage(operator.deps(), { reason: "maintenance", by: "ada" });
  t.is((await operator.resume()).doubtedUntil, null);
  await operator.send();
  t.is(operator.billedTo(0), 6);
});

test("what a restore has left to do is complete when Stripe is asked about the last event", async (t, operator) => {
  await operator.restore();
  await operator.resume();
  operator.pass(60);
  const event = await operator.failUnknown(6, true);
  await operator.retry(event.id);
  const progress = await readRestoreProgress(operator.deps());
  t.deepEqual(progress?.asked, { events: 1, unsealedFacts: 0 });
  const settledMs = event.settledAt?.getTime() ?? 0;
  t.is(progress?.sumsCompleteAt.getTime(), settledMs + LONGEST_USAGE_LAG_MS);
  await operator.settle();
});

test("a restore that was not noticed is named when a hold ends, not without one", async (t, operator) => {
  await t.throwsAsync(operator.resume({ history: "restored" }), {
    message: /usage is not held, so nothing would be asked about/u,
  });
});

test("usage that is held gets no second hold, which the first release would end", async (t, operator) => {
  const first = await holdUsage(operator.deps(), { reason: "maintenance", by: "ada" });
  t.deepEqual(await holdUsage(operator.deps(), { reason: "restore", by: "bob" }), first);
});

for (const aheadSeconds of [20 * 60, -60 * 60]) {
  test(`a hold, its end and the lag are of the database's clock on a machine whose clock is ${aheadSeconds} s ahead`, async (t, operator) => {
    await operator.register(accountOf(operator), 6);
    await operator.restore(() => operator.send());
    const now = operator.control.now() * 1000;
    const { doubtedUntil } = await operator.onClock(aheadSeconds, operator.resume);
    t.true(Math.abs((doubtedUntil?.getTime() ?? 0) - now) < 5000, String(doubtedUntil));
    const [ended] = await listAuditEntries(operator.deps().db, { action: "usage.resume" }, 1);
    t.true(Math.abs((ended?.createdAt.getTime() ?? 0) - now) < 5000, String(ended?.createdAt));
    const hold = await operator.onClock(aheadSeconds, () =>
      holdUsage(operator.deps(), { reason: "test", by: "ada" }),
    );
    t.true(Math.abs((hold.at?.getTime() ?? 0) - now) < 5000, hold.at?.toISOString());
    await operator.onClock(aheadSeconds, operator.resume);
    await operator.send();
    t.is((await operator.listEvents(["pending"])).length, 1, "the sums may lag");
    await operator.settle();
    t.deepEqual(operator.billed(), { 0: 6 });
  });
}

/** Copies what the database contains into another one, as a restored dump or a copy within the server does. */
const copyDatabaseOf = async (t: ExecutionContext, operator: Operator): Promise<DatabasePool> => {
  const databaseUrl = await copyDatabase(t);
  const db = await openTestPool(t, databaseUrl, 3);
  const copy = createSavedDatabase({ db, databaseUrl, ownerUrl: asOwner(databaseUrl) });
  await copy.restore(await operator.database.save());
  return db;
};

test("a copy that is used beside the original is not compared with what that has sent", async (t, operator) => {
  await operator.sendNew(3);
  await operator.register(accountOf(operator), 6);
  const kept = operator.registrations();
  const { db } = operator.deps();
  const copy = await copyDatabaseOf(t, operator);
  await operator.send();
  await operator.continueWith(copy, kept);
  await operator.resume({ history: "copy" });
  t.like(await readDeployment(copy), { hold: null, isServerChanged: false, processor: null });
  t.deepEqual(await operator.reconcile(), []);

  await operator.continueWith(db, kept);
  await operator.settle();
  t.is(operator.billedTo(0), 9);
});
