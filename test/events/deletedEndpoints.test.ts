import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { deleteEndpointsBefore } from "../../modules/events/endpoints.sql.ts";
import { newId } from "../../runtime/newId.ts";
import { deleteOldDeliveries } from "../../modules/events/deleteOldEvents.ts";
import {
  deleteWebhookEndpoint,
  rotateWebhookSecret,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { runBehindLocks } from "../support/lockWaits.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { setUpWebhooks } from "./webhookScene.ts";

const test = testWithDatabase();

const NOW = "2025-06-01T12:00:00.000Z";

const endpointRow = z.strictObject({ name: z.string() });

/** Inserts endpoints that were deleted a number of hours ago, in a database of its own. */
const setUp = async (t: ExecutionContext<DatabaseContext>, hours: readonly number[]) => {
  const db = await openTestPool(t, await copyDatabase(t));
  const { id: accountId } = await createTestOrganization(db);
  const ids = hours.map(() => newId());
  await db.query(sql.typeAlias("void")`
    INSERT INTO webhook_endpoint (id, account_id, mode, url, description, created_at, deleted_at)
    SELECT id, ${accountId}, 'live', 'https://shop.example/', hours::text, ${NOW}, ${NOW}::timestamptz - make_interval(hours => hours)
    FROM unnest(${sql.array(ids, "uuid")}, ${sql.array([...hours], "int4")}) AS given (id, hours)
  `);
  return {
    db,
    ids,
    /** The hours of the endpoints that are left. */
    left: () =>
      db.anyFirst(sql.type(endpointRow)`
        SELECT description AS name FROM webhook_endpoint ORDER BY deleted_at
      `),
  };
};

test("deleted endpoints leave in batches, those that have deliveries later", async (t) => {
  const { db, ids, left } = await setUp(t, [23, 30, 24, 28, 26]);
  await db.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
    VALUES (${ids[3] ?? t.fail()}, gen_random_uuid(), 'ping', ${NOW}, '{}', ${NOW}, ${NOW})
  `);
  const time = new Date("2025-05-31T12:00:00.000Z");
  const first = await deleteEndpointsBefore(db, { from: null, time }, 2);
  t.deepEqual(first, { deleted: 2, last: new Date("2025-05-31T10:00:00.000Z") });
  t.deepEqual(await left(), ["28", "24", "23"]);
  const second = await deleteEndpointsBefore(db, { from: first.last, time }, 2);
  t.is(second.deleted, 1);
  t.deepEqual(await left(), ["28", "23"]);

  const clock = createMovableClock(NOW);
  await deleteOldDeliveries({ db, clock }, new AbortController().signal);
  t.deepEqual(await left(), ["23"]);
});

test("an endpoint that is deleted during a rotation has no secrets left", async (t) => {
  const { deps, endpoint } = await setUpWebhooks(t);
  const [{ secret }] = await runBehindLocks<
    [Awaited<ReturnType<typeof rotateWebhookSecret>>, undefined]
  >(
    deps.db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        SELECT FROM webhook_secret WHERE endpoint_id = ${endpoint.id} FOR UPDATE
      `),
    () => rotateWebhookSecret(deps, endpoint, { revokesPrevious: false }),
    async () => {
      await deleteWebhookEndpoint(deps, endpoint);
      return undefined;
    },
  );
  t.regex(secret, /^whsec_/u);
  t.deepEqual(
    await deps.db.anyFirst(sql.type(z.strictObject({ secret: z.string() }))`
      SELECT secret FROM webhook_secret WHERE endpoint_id = ${endpoint.id}
    `),
    [],
  );
  const later = { from: null, time: new Date(deps.clock.now().getTime() + 1) };
  t.is((await deleteEndpointsBefore(deps.db, later, 100)).deleted, 1);
});
