import { listPlantingOrders } from "../../db/planting/orders.ts";
import { sql } from "../../db/sql.ts";
import type { Run } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { runBehindLocks } from "../support/lockWaits.ts";
import { orderedTree } from "./importLine.ts";
import { setUpImport, summaryOf } from "./importScene.ts";

const test = testWithDatabase();

const SOURCE = ["--source", "old.example"];

test("concurrent imports of a tree's evidence count the tree once", async (t) => {
  const { db } = t.context;
  const { id: accountId, importText } = await setUpImport(t);
  const [tree, evidence] = orderedTree("a", 1001, "ORD-1001");
  await importText(tree);

  const [first, second] = await runBehindLocks<[Run, Run]>(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        SELECT FROM registration WHERE account_id = ${accountId} FOR UPDATE
      `),
    () => importText(evidence, ...SOURCE),
    () => importText(evidence, ...SOURCE),
  );

  t.like(summaryOf(first), { new: 1, known: 0 }, first.stderr);
  t.like(summaryOf(second), { new: 0, known: 1 }, second.stderr);
  const orders = await listPlantingOrders(db, { accountId, limit: 2 });
  t.deepEqual(
    orders.map(({ treeCount }) => treeCount),
    [4],
  );
});
