import type { DatabasePool } from "slonik";
import { z } from "zod";
import {
  insertProcessorEvent,
  recordProcessing,
} from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { insertReconciliation } from "../../../modules/billing/reconciliation/reconciliations.sql.ts";
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
  { settledAt, error }: { readonly settledAt: Date; readonly error?: string },
): Promise<void> => {
  await insertProcessorEvent(db, { id, type: "customer.deleted", objectId: null }, settledAt);
  await recordProcessing(db, id, { isSettled: true, error: error ?? null, now: settledAt });
};

/** Stores a reconciliation with a stream that could not be read. */
const storeReconciliation = (
  db: DatabasePool,
  accountId: string,
  startedAt: Date,
): Promise<void> => {
  const name = { kind: "tree", customerId: "cus_0", accountName: "x" } as const;
  return insertReconciliation(db, {
    startedAt,
    endedAt: startedAt,
    streams: 1,
    unreadable: [{ ...name, accountIds: [accountId], error: "No such customer" }],
    error: null,
  });
};

const idsOf = (db: DatabasePool, table: string): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.string() }))`
    SELECT id::text AS id FROM ${sql.identifier([table])} ORDER BY 1
  `);

test("processed events and reconciliations are deleted after their retention, and nothing else: differences stay", async (t) => {
  const { db } = t.context;
  await storeEvent(db, "evt_old", { settledAt: daysAgo(91), error: "given up" });
  await storeEvent(db, "evt_recent", { settledAt: daysAgo(89) });
  const pending = { id: "evt_pending", type: "customer.deleted", objectId: null };
  await insertProcessorEvent(db, pending, daysAgo(500));
  const { id: accountId } = await createTestOrganization(db);
  await storeReconciliation(db, accountId, daysAgo(401));
  await storeReconciliation(db, accountId, daysAgo(399));
  await db.query(sql.typeAlias("void")`
    INSERT INTO usage_difference (account_id, kind, customer_id, second, units, found_at)
    VALUES (${accountId}, 'tree', 'cus_0', 0, 1, ${timestamp(daysAgo(401))})
  `);
  const deps = { db, clock: { now: () => NOW } };
  const { signal } = new AbortController();

  t.like(await deleteOldData(deps, signal), { processorEvents: 1, reconciliations: 1 });
  t.like(await deleteOldData(deps, signal), { processorEvents: 0, reconciliations: 0 });
  t.deepEqual(await idsOf(db, "processor_event"), ["evt_pending", "evt_recent"]);
  t.is((await idsOf(db, "reconciliation")).length, 1);
  t.is((await idsOf(db, "usage_difference")).length, 1);
});
