import { z } from "zod";
import { deleteTestResponses } from "../../modules/stores/idempotentResponses.sql.ts";
import { deleteOldTestRegistrations } from "../../modules/registrations/deleteOldTestRegistrations.ts";
import { sql } from "../../db/sql.ts";
import { deleteBefore } from "../../db/batching/deleteInBatches.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore, startStoreApi } from "./startStoreApi.ts";

const test = testWithDatabase();

const dayOf = (day: number) => new Date(Date.UTC(2026, 2, day));

test("keys of test mode are deleted with their records or after their time, and live ones never", async (t) => {
  const { db } = t.context;
  const clock = { now: () => dayOf(10) };
  const api = await startStoreApi(t, { ...t.context, clock });
  const store = await createTestStore(db, { balanceCents: 1000 });
  for (const headers of [store.live, store.test]) {
    const key = { ...headers, "Idempotency-Key": "key" };
    t.is((await api.post("/app/api/plant", key, { trees: 2 })).status, 200);
    const refund = { type: "tree", quantity: 1 };
    t.is((await api.post("/app/api/refund", key, refund)).status, 200);
  }
  const signal = new AbortController().signal;

  const listKeys = () =>
    db.anyFirst(sql.type(z.strictObject({ key: z.string() }))`
      SELECT mode || ' ' || operation AS key FROM idempotency_key WHERE account_id = ${store.id} ORDER BY key
    `);
  const deleteOnDay = (day: number) =>
    deleteBefore(deleteTestResponses, { db, before: dayOf(day) }, signal);
  t.is(await deleteOnDay(10), 0);
  t.is(await deleteOnDay(11), 1);
  t.deepEqual(await listKeys(), ["live plant", "live refund", "test plant"]);

  t.is((await deleteOldTestRegistrations(db, dayOf(11), signal)).registrations, 1);
  t.deepEqual(await listKeys(), ["live plant", "live refund"]);
});
