import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { claimDeliveries, recordAttempts } from "../../modules/events/attempts.sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { setUpWebhooks } from "./webhookScene.ts";

// Serial, because a test counts the pages of its tables.
const test = testWithDatabase();

const numberRow = z.strictObject({ number: z.int() });

const TABLES = ["webhook_delivery", "webhook_attempt"];

/** Inserts deliveries that are due, each with earlier attempts. */
const insertDeliveries = async (
  db: DatabasePool,
  endpointId: string,
  { count, attempts }: { readonly count: number; readonly attempts: number },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH delivery AS (
      INSERT INTO webhook_delivery
        (endpoint_id, event_id, type, occurred_at, data, created_at, due_at, attempts, earlier_attempts)
      SELECT ${endpointId}, gen_random_uuid(), 'ping', now(), '{}', now(), now() - interval '1 minute', ${attempts}, ${attempts}
      FROM generate_series(1, ${count}::integer)
      RETURNING endpoint_id, event_id
    )
    INSERT INTO webhook_attempt (endpoint_id, event_id, number, started_at, duration_ms, status, error, response)
    SELECT
      endpoint_id, event_id, number, now() - make_interval(mins => number), 1, 500, 'status 500', repeat('x', 1024)
    FROM delivery
    CROSS JOIN generate_series(1, ${attempts}::integer) AS number
    ORDER BY event_id, number
  `);
};

test.serial("of a delivery retried without end, the last 100 attempts are kept", async (t) => {
  const { endpoint, clock } = await setUpWebhooks(t);
  const { filler, db: single } = await openSinglePools(t);
  await stopAutovacuum(filler, TABLES);
  await insertDeliveries(filler, endpoint.id, { count: 100, attempts: 1 });
  await filler.query(sql.typeAlias("void")`ANALYZE webhook_delivery, webhook_attempt`);
  await insertDeliveries(filler, endpoint.id, { count: 300, attempts: 100 });
  const claimed = await claimDeliveries(
    filler,
    [{ endpointId: endpoint.id, places: 200 }],
    clock.now(),
  );
  const delivery = claimed.find(({ attempts }) => attempts === 100) ?? t.fail();
  const countPages = await createPageCounter(filler, single, TABLES);

  const now = clock.now();
  const pages = await countPages((db) =>
    recordAttempts(db, [
      {
        delivery,
        startedAt: now,
        endedAt: now,
        durationMs: 1,
        result: { status: 204, error: null, response: "", retryAfterMs: null },
        decision: { state: "delivered", dueAt: null },
      },
    ]),
  );
  const kept = await filler.anyFirst(sql.type(numberRow)`
    SELECT number FROM webhook_attempt WHERE event_id = ${delivery.id} ORDER BY number
  `);
  t.deepEqual(
    kept,
    Array.from({ length: 100 }, (_, index) => index + 2),
  );
  // Of about 4,400 pages; the hundred attempts have 15.
  t.true(pages < 100, `${pages} pages`);
});
