import { z } from "zod";
import { readJson, impactOf } from "./runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore } from "../stores/startStoreApi.ts";
import { skipIds } from "../support/skipIds.ts";
import { setUpUsage } from "../billing/repair/usageSetup.ts";

const test = testWithDatabase();

test.before((t) => skipIds(t.context.owner, "meter_event"));

const statement = z.looseObject({
  statements: z.array(
    z.looseObject({ kind: z.string(), days: z.array(z.looseObject({ day: z.string() })) }),
  ),
});

test.serial("a statement adds up, with pending, failed and closed usage", async (t) => {
  const scene = await setUpUsage(t);
  await scene.send(4);
  await scene.setCustomer();
  const billed = await scene.register(9);
  await scene.refund(billed, 2);
  await scene.drain();
  await scene.register(5);
  const args = ["statement", "--org", scene.id, "--period", scene.month];
  const read = async () => statement.parse(await scene.impact.json(...args)).statements;
  const [tree, bottle] = await read();
  const nothing = { late: 0, closed: 0, documented: 0 };
  t.like(tree, { registered: 18, refunded: 2, reported: 7, failed: 4, pending: 5, ...nothing });
  t.is(tree?.days[0]?.day.slice(0, 7), scene.month);
  t.deepEqual(bottle?.days, []);
  const csv = (await scene.impact(...args, "--csv")).stdout;
  t.true(csv.startsWith("meter,day,registered,refunded,reported,"));
  t.regex(csv, /^tree,total,18,2,7,0,4,0,0,5\r$/mu);
  t.regex((await scene.impact.ok(...args)).stdout, /tree +total +18 +2 +7 +0 +4 +0 +0 +5\n/u);
  const closing = ["--never-bill", "--reason", "a test"];
  await scene.usage.ok("close", scene.id, ...closing);
  t.like((await read())[0], { failed: 0, closed: 4 });
});

test.serial("if Stripe's sum differs, the exit code is 1 until that is closed", async (t) => {
  const scene = await setUpUsage(t);
  await scene.setCustomer();
  scene.double.control.addFault({ kind: "reject_later" });
  await scene.send(9);
  const args = ["statement", "--org", scene.id, "--period", scene.month];
  await scene.impact.ok(...args);
  const reconciled = await scene.usageLater("reconcile", "--org", scene.id);
  const item = /^(?<item>D\d+) /mu.exec(reconciled.stdout)?.groups?.["item"] ?? "";
  const differing = await scene.impact(...args);
  t.is(differing.exitCode, 1);
  t.regex(differing.stdout, /tree +total +9 /u, "the statement is printed all the same");
  t.regex(differing.stderr, /tree, D\d+: Stripe had 9 units less of cus_\w+ than was delivered/u);
  t.regex(differing.stderr, /Stripe does not have exactly what was delivered/u);
  const json = await scene.impact(...args, "--json");
  t.is(json.exitCode, 1);
  t.like(statement.parse(readJson(json)).statements[0], { open_differences: [{ item }] });
  const note = ["--reason", "invoiced by hand"];
  const wrong = await scene.usage("close", item, "--credit-note", "cn_4", ...note);
  t.regex(wrong.stderr, /9 units to bill: name an invoice item/u);
  const closed = await scene.usage.ok("close", item, "--invoice-item", "ii_4", ...note);
  t.regex(closed.stderr, /Closed: 9 units billed by ii_4/u);
  t.regex((await scene.impact.ok(...args)).stdout, /tree +total +9 +0 +0 +0 +0 +0 +9 +0\n/u);
});

test("a store has no statement and no usage, which its ledger replaces", async (t) => {
  const { domain } = await createTestStore(t.context.db);
  const impact = impactOf(t);
  for (const args of [
    ["statement", "--org", domain, "--period", "current"],
    ["usage", "explain", domain],
    ["import", "slug", "old", "--org", domain, "--reason", "a test"],
  ]) {
    t.regex(await impact.fails(2, ...args), /is a store.*impact export balance/u);
  }
});
