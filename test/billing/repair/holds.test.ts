import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { holdUsage } from "../../../modules/billing/holdUsage.ts";
import { asOwner, copyDatabase, openTestPool } from "../../support/database.ts";
import { createSavedDatabase } from "../convergence/savedDatabase.ts";
import { LAG_SECONDS } from "../convergence/world.ts";
import type { Registration } from "../convergence/world.ts";
import { FORGOTTEN_SECONDS, testRepairs } from "./testRepairs.ts";
import type { Operator } from "./testRepairs.ts";

const test = testRepairs();

const accountOf = (operator: Operator, place = 0): string => operator.accountIds[place] ?? "";

test("if nothing was lost, usage is sent without a question", async (operator) => {
  const { t } = operator;
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

test("an operator's later hold does not renew the doubt of a restore", async (operator) => {
  const { t } = operator;
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

test("a restore that was not noticed is named when a hold ends, not without one", async (operator) => {
  await operator.t.throwsAsync(operator.resume({ history: "restored" }), {
    message: /usage is not held, so nothing would be asked about/u,
  });
});

test("another operator or reason gets no second hold, and the same one is repeated", async (operator) => {
  const { t } = operator;
  const first = await holdUsage(operator.deps(), { reason: "maintenance", by: "ada" });
  for (const hold of [
    { reason: "maintenance", by: "bob" },
    { reason: "restore", by: "ada" },
  ]) {
    await t.throwsAsync(holdUsage(operator.deps(), hold), {
      message: /usage is held by ada: maintenance\. It ends for all/u,
    });
  }
  t.deepEqual(await holdUsage(operator.deps(), { reason: "maintenance", by: "ada" }), first);
});

for (const aheadSeconds of [20 * 60, -60 * 60]) {
  test(`a hold, its end and the lag are of the database's clock on a machine whose clock is ${aheadSeconds} s ahead`, async (operator) => {
    const { t } = operator;
    await operator.register(accountOf(operator), 6);
    await operator.restore(() => operator.send());
    const now = operator.control.now() * 1000;
    const { doubtedUntil } = await operator.onClock(aheadSeconds, operator.resume);
    t.true(Math.abs((doubtedUntil?.getTime() ?? 0) - now) < 5000, String(doubtedUntil));
    const { releasedAt } = await readDeployment(operator.deps().db);
    t.true(Math.abs((releasedAt?.getTime() ?? 0) - now) < 5000, String(releasedAt));
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
  const copy = await createSavedDatabase({ db, databaseUrl, ownerUrl: asOwner(databaseUrl) });
  await copy.restore(await operator.database.save(), { onNewServer: false });
  return db;
};

test("a copied database is noticed, and sends nothing until it replaces the old one", async (operator) => {
  const { t } = operator;
  await operator.register(accountOf(operator), 6);
  const kept: readonly Registration[] = operator.registrations();
  const copy = await copyDatabaseOf(t, operator);
  await operator.send();
  t.deepEqual(operator.billed(), { 0: 6 });
  operator.pass(FORGOTTEN_SECONDS);
  await operator.continueWith(copy, kept);
  await operator.send();
  t.like((await readDeployment(copy)).hold, { by: "restore guard" });

  await operator.resume();
  await operator.settle();

  t.deepEqual(operator.billed(), { 0: 6 });
});

test("a copy that is used beside the original is not compared with what that has sent", async (operator) => {
  const { t } = operator;
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
