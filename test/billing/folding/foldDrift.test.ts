import { deleteOldReconciliations } from "../../../modules/billing/reconciliation/reconciliations.sql.ts";
import { sql } from "../../../db/sql.ts";
import { runReconciliation } from "../../../modules/billing/reconciliation/runReconciliation.ts";
import { deleteInBatches } from "../../../db/batching/deleteInBatches.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpFolding, START } from "./foldSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const signal = new AbortController().signal;

test.serial(
  "usage stays for good if it drifted in a reconciliation, or came after as many minutes as one lists",
  async (t) => {
    const scene = await setUpFolding(t);
    const { db, accountId, billing } = scene;
    // In the minutes 9:59 to 10:22.
    for (let minute = 0; minute < 24; minute += 1) {
      await scene.register(1);
      scene.pass(60);
    }
    await scene.drain();
    // The first and the last minute do not drift.
    await db.query(sql.typeAlias("void")`
      DELETE FROM ledger_usage
      WHERE account_id = ${accountId} AND second > ${START} AND second < ${START + 23 * 60}
    `);
    scene.pass(3600);
    const clock = { now: () => new Date(scene.second() * 1000) };
    const run = { id: crypto.randomUUID(), isFinal: true };
    const { drifting } = await runReconciliation({ db, clock, billing }, run, signal);
    t.is(drifting[0]?.differences.length, 20);
    await scene.register(100);
    await scene.drain();

    const [folded] = await scene.fold();
    t.like(folded, { facts: 2, units: 101n, kept: 23 });
    const later = new Date((scene.second() + DAY) * 1000);
    await deleteInBatches((limit) => deleteOldReconciliations(db, later, limit), signal);
    t.like((await scene.fold())[0], { facts: 0, kept: 23 });
  },
);

test.serial("a minute whose drift was acknowledged stays", async (t) => {
  const scene = await setUpFolding(t);
  await scene.register(1);
  scene.pass(60);
  await scene.register(2);
  await scene.drain();
  await scene.db.query(sql.typeAlias("void")`
    INSERT INTO acknowledged_drift
      (
        processor, mode, kind, customer, minute, units, meter_event_ids, reason, acknowledged_by, acknowledged_at
      )
    VALUES ('ledger', 'live', 'tree', ${scene.accountId}, ${START - 30}, 1, '{}', 'r', 'o', now())
  `);
  const before = await scene.read();
  const [folded] = await scene.fold();
  t.like(folded, { facts: 1, units: 2n, kept: 1 });
  t.deepEqual(await scene.read(), before);
});
