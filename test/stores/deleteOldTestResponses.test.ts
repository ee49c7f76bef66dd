import { z } from "zod";
import { deleteTestResponses } from "../../modules/stores/idempotentResponses.sql.ts";
import { sql } from "../../db/sql.ts";
import { deleteBefore } from "../../db/batching/deleteInBatches.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestStore, startStoreApi } from "./startStoreApi.ts";

const test = testWithDatabase();

test("stored responses of test mode are deleted after their time, and live ones never", async (t) => {
  const { db } = t.context;
  const clock = { now: () => new Date(Date.UTC(2026, 2, 10)) };
  const api = await startStoreApi(t, { ...t.context, clock });
  const store = await createTestStore(db, { balanceCents: 1000 });
  for (const headers of [store.live, store.test]) {
    const { status } = await api.post(
      "/app/api/plant",
      { ...headers, "Idempotency-Key": "key" },
      { trees: 1 },
    );
    t.is(status, 200);
  }
  const signal = new AbortController().signal;

  const deleteOnDay = (day: number) =>
    deleteBefore(deleteTestResponses, { db, before: new Date(Date.UTC(2026, 2, day)) }, signal);
  t.is(await deleteOnDay(10), 0);
  t.is(await deleteOnDay(11), 1);

  t.deepEqual(
    await db.anyFirst(sql.type(z.strictObject({ mode: z.string() }))`
      SELECT mode FROM idempotent_response WHERE account_id = ${store.id}
    `),
    ["live"],
  );
});
