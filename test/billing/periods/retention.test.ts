import type { DatabasePool } from "slonik";
import { z } from "zod";
import {
  changeProcessorEvent,
  insertProcessorEvent,
  saveAppliedReport,
} from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import {
  insertReconciliation,
  updateReconciliation,
} from "../../../modules/billing/reconciliation/reconciliations.sql.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import { deleteOldData } from "../../../modules/support/deleteOldData.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";

const test = testWithDatabase();

const NOW = new Date(Date.UTC(2030, 0, 1));
const daysAgo = (days: number): Date => new Date(NOW.getTime() - days * 86_400_000);

const storeEvent = async (
  db: DatabasePool,
  id: string,
  { settledAt, state }: { readonly settledAt: Date; readonly state: "processed" | "failed" },
): Promise<void> => {
  await insertProcessorEvent(
    db,
    { id, type: "customer.deleted", objectId: null, createdAt: settledAt },
    settledAt,
  );
  await changeProcessorEvent(db, id, { from: "pending", state, now: settledAt });
};

/** Stores a reconciliation with a stream that differs. */
const storeReconciliation = async (
  db: DatabasePool,
  accountId: string,
  startedAt: Date,
): Promise<string> => {
  const id = crypto.randomUUID();
  await insertReconciliation(db, { id, isComplete: true, span: { start: 0, end: 60 }, startedAt });
  const stream = {
    kind: "tree",
    customerId: "cus_0",
    accountIds: [accountId],
    accountName: "x",
    delivered: 1,
    processorQuantity: 2,
    error: null,
  } as const;
  const result = { streams: 1, found: [stream], endedAt: startedAt, error: null };
  await updateReconciliation(db, id, {
    ...result,
    found: [{ ...stream, accountIds: [accountId] }],
  });
  return id;
};

const idsOf = (db: DatabasePool, table: string): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.string() }))`
    SELECT id::text AS id FROM ${sql.identifier([table])} ORDER BY 1
  `);

test("processed events without unnamed refusals, and reconciliations, are deleted after their retention, and nothing else: differences stay", async (t) => {
  const { db } = t.context;
  await storeEvent(db, "evt_old", { settledAt: daysAgo(91), state: "processed" });
  await storeEvent(db, "evt_recent", { settledAt: daysAgo(89), state: "processed" });
  await storeEvent(db, "evt_failed", { settledAt: daysAgo(500), state: "failed" });
  const pending = { id: "evt_pending", type: "customer.deleted", objectId: null };
  await insertProcessorEvent(db, { ...pending, createdAt: daysAgo(500) }, daysAgo(500));
  const window = { windowStart: daysAgo(91), windowEnd: daysAgo(91) };
  const refusal = { code: "archived_meter", errors: 2, named: 2, leftIds: [] };
  await saveAppliedReport(db, "evt_old", { ...window, refusals: [refusal] });
  await saveAppliedReport(db, "evt_recent", { ...window, refusals: [refusal] });
  await storeEvent(db, "evt_unnamed", { settledAt: daysAgo(500), state: "processed" });
  await saveAppliedReport(db, "evt_unnamed", { ...window, refusals: [{ ...refusal, named: 1 }] });
  const { id: accountId } = await createTestOrganization(db);
  await storeReconciliation(db, accountId, daysAgo(401));
  const recent = await storeReconciliation(db, accountId, daysAgo(399));
  await db.query(sql.typeAlias("void")`
    INSERT INTO usage_difference (account_id, kind, customer_id, second, units, found_at)
    VALUES (${accountId}, 'tree', 'cus_0', 0, 1, ${timestamp(daysAgo(401))})
  `);
  const deps = { db, clock: { now: () => NOW } };
  const { signal } = new AbortController();

  t.like(await deleteOldData(deps, signal), { processorEvents: 1, reconciliations: 1 });
  t.like(await deleteOldData(deps, signal), { processorEvents: 0, reconciliations: 0 });
  t.deepEqual(await idsOf(db, "processor_event"), [
    "evt_failed",
    "evt_pending",
    "evt_recent",
    "evt_unnamed",
  ]);
  t.deepEqual(await idsOf(db, "reconciliation"), [recent]);
  t.is((await idsOf(db, "usage_difference")).length, 1);
});
