import type { DatabasePool } from "slonik";
import { z } from "zod";
import {
  insertProcessorEvent,
  settleProcessorEvent,
  saveUsageRejection,
} from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import {
  insertReconciliation,
  replaceReconciliationStreams,
  updateReconciliation,
} from "../../../modules/billing/reconciliation/reconciliations.sql.ts";
import { sql } from "../../../db/sql.ts";
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
  await settleProcessorEvent(db, id, { state, error: null, settledAt });
};

/** Stores a reconciliation with streams that drift in a minute, or that could not be read. */
const storeReconciliation = async (
  db: DatabasePool,
  given: {
    readonly accountId: string;
    readonly startedAt: Date;
    readonly streams: number;
    readonly isDrift: boolean;
  },
): Promise<string> => {
  const { accountId, startedAt, streams, isDrift } = given;
  const id = crypto.randomUUID();
  await insertReconciliation(db, { id, isComplete: true, span: { start: 0, end: 60 }, startedAt });
  await db.transaction((transaction) =>
    replaceReconciliationStreams(
      transaction,
      id,
      Array.from({ length: streams }, (_, number) => ({
        processor: "stripe",
        mode: "live",
        kind: "tree",
        customerId: `cus_${number}`,
        accountIds: [accountId],
        accountName: "x",
        delivered: 1,
        pending: 0,
        failed: 0,
        processorQuantity: isDrift ? 2 : null,
        acknowledged: 0,
        error: isDrift ? null : "no such customer",
        errorIsTemporary: false,
        differences: isDrift ? [{ minute: 0, ours: 1, processor: 2, mayLag: false }] : [],
      })),
    ),
  );
  await updateReconciliation(db, id, {
    streams,
    drifting: isDrift ? streams : 0,
    unreadable: isDrift ? 0 : streams,
    driftUnits: isDrift ? streams : 0,
    endedAt: startedAt,
    error: null,
  });
  return id;
};

const idsOf = (db: DatabasePool, table: string): Promise<readonly string[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.string() }))`
    SELECT id::text AS id FROM ${sql.identifier([table])} ORDER BY 1
  `);

test("processed events without unnamed rejections, and reconciliations without drift, are deleted after their retention, and nothing else", async (t) => {
  const { db } = t.context;
  await storeEvent(db, "evt_old", { settledAt: daysAgo(91), state: "processed" });
  await storeEvent(db, "evt_recent", { settledAt: daysAgo(89), state: "processed" });
  await storeEvent(db, "evt_failed", { settledAt: daysAgo(500), state: "failed" });
  const pending = { id: "evt_pending", type: "customer.deleted", objectId: null };
  await insertProcessorEvent(db, { ...pending, createdAt: daysAgo(500) }, daysAgo(500));
  const window = { windowStart: daysAgo(91), windowEnd: daysAgo(91), rejections: [] };
  const rejection = { code: "archived_meter", errors: 2, named: 2, leftEventIds: [] };
  await saveUsageRejection(db, "evt_old", window, rejection);
  await saveUsageRejection(db, "evt_recent", window, rejection);
  await storeEvent(db, "evt_unnamed", { settledAt: daysAgo(500), state: "processed" });
  await saveUsageRejection(db, "evt_unnamed", window, { ...rejection, named: 1 });
  const { id: accountId } = await createTestOrganization(db);
  const given = { accountId, streams: 2, isDrift: false };
  const drifted = await storeReconciliation(db, {
    ...given,
    startedAt: daysAgo(402),
    isDrift: true,
  });
  // More streams than fit into one batch.
  await storeReconciliation(db, { ...given, startedAt: daysAgo(401), streams: 2500 });
  const recent = await storeReconciliation(db, { ...given, startedAt: daysAgo(399) });
  const deps = {
    db,
    clock: { now: () => NOW },
    retention: { processorEventDays: 90, reconciliationDays: 400 },
    testDataDays: 0,
  };

  const { signal } = new AbortController();

  t.like(await deleteOldData(deps, signal), { processorEvents: 1, reconciliations: 2501 });
  t.like(await deleteOldData(deps, signal), { processorEvents: 0, reconciliations: 0 });
  t.deepEqual(await idsOf(db, "processor_event"), [
    "evt_failed",
    "evt_pending",
    "evt_recent",
    "evt_unnamed",
  ]);
  t.deepEqual(await idsOf(db, "reconciliation"), [drifted, recent].toSorted());
  t.is((await idsOf(db, "reconciliation_stream")).length, 4);
  t.is((await idsOf(db, "reconciliation_difference")).length, 2);
});
