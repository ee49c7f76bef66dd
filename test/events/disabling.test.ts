import { AsyncLocalStorage } from "node:async_hooks";
import type { ServerResponse } from "node:http";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { failPendingDeliveries } from "../../modules/events/deliveries.sql.ts";
import {
  enableEndpoint,
  findEndpoint,
  recordEndpointResults,
} from "../../modules/events/endpoints.sql.ts";
import { HOUR_MS } from "../../runtime/durations.rules.ts";
import {
  deleteWebhookEndpoint,
  updateWebhookEndpoint,
  switchWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { awaitBlocked, endsOrBlocks } from "../support/lockWaits.ts";
import { answer, startReceiver } from "./startReceiver.ts";
import { setUpWebhooks } from "./webhookScene.ts";

// Serial, because what is pending at all disabled endpoints of the file's database ends together.
const test = testWithDatabase();

const PART = 1000;

/** Creates an endpoint with due deliveries. */
const setUpBacklog = async (t: ExecutionContext<DatabaseContext>, count: number) => {
  const scene = await setUpWebhooks(t);
  const { deps, endpoint, clock } = scene;
  await deps.db.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
    SELECT ${endpoint.id}, gen_random_uuid(), 'ping', now(), '{}', now(), ${clock.now().toISOString()}::timestamptz
    FROM generate_series(1, ${count}::integer)
  `);
  return {
    ...scene,
    countPending: () =>
      deps.db.oneFirst(sql.type(z.strictObject({ count: z.int() }))`
        SELECT count(*)::integer AS count
        FROM webhook_delivery
        WHERE endpoint_id = ${endpoint.id} AND state = 'pending'
      `),
    enable: () => switchWebhookEndpoint(deps, endpoint, "enabled"),
    disable: () => switchWebhookEndpoint(deps, endpoint, "disabled"),
    endPart: () => failPendingDeliveries(deps.db, null),
  };
};

test.serial("a thousand deliveries end with the disabling, and the others in parts", async (t) => {
  const other = await setUpBacklog(t, 1);
  const { disable, endPart, countPending } = await setUpBacklog(t, 2 * PART + 1);
  await disable();
  t.is(await countPending(), PART + 1);
  await endPart();
  t.is(await countPending(), 1);
  await endPart();
  t.is(await countPending(), 0);
  t.is(await other.countPending(), 1);
});

test.serial("an endpoint is disabled while attempts of it are being recorded", async (t) => {
  const { deps, endpoint, receiver, deliver, endPart, deliveries } = await setUpBacklog(t, 2);
  receiver.respond(answer(410));
  // Slonik rejects other connections within a transaction.
  const outside = AsyncLocalStorage.snapshot();
  const hasEnded = await deps.db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
      SELECT
      FROM webhook_delivery
      WHERE endpoint_id = ${endpoint.id}
      ORDER BY due_at DESC, transaction_id DESC, event_id DESC
      LIMIT 1
      FOR NO KEY UPDATE
    `);
    return endsOrBlocks(transaction, outside(deliver));
  });
  t.true(hasEnded);
  t.like(await findEndpoint(deps.db, endpoint.id), { disabledReason: "gone" });
  await endPart();
  t.deepEqual(
    (await deliveries()).map(({ state }) => state),
    ["failed", "failed"],
  );
});

test.serial("what has not ended when an endpoint is enabled is delivered", async (t) => {
  const { enable, disable, endPart, countPending, deliver, receiver } = await setUpBacklog(
    t,
    PART + 2,
  );
  await disable();
  await deliver();
  t.is(receiver.received.length, 0);
  await enable();
  await endPart();
  t.is(await countPending(), 2);
  await deliver();
  t.is(receiver.received.length, 2);
});

test.serial("no deliveries of an endpoint end while it is enabled, or afterwards", async (t) => {
  const { deps, endpoint, enable, disable, endPart, countPending } = await setUpBacklog(
    t,
    2 * PART + 1,
  );
  const { db } = deps;
  await disable();
  const outside = AsyncLocalStorage.snapshot();
  const { enabling } = await db.transaction(async (transaction) => {
    await failPendingDeliveries(transaction, null);
    const begun = outside(enable);
    await awaitBlocked(transaction);
    return { enabling: begun };
  });
  t.like(await enabling, { disabledReason: null });
  t.is(await countPending(), 1);

  await disable();
  t.is(await countPending(), 0);
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery SET state = 'pending', due_at = now() WHERE endpoint_id = ${endpoint.id}
  `);
  await db.transaction(async (transaction) => {
    await enableEndpoint(transaction, endpoint.id);
    await outside(endPart);
  });
  t.is(await countPending(), 2 * PART + 1);
});

test.serial("the deliveries of a deleted endpoint are left to the night", async (t) => {
  const { deps, endpoint, disable, endPart, countPending } = await setUpBacklog(t, PART + 1);
  await disable();
  await deleteWebhookEndpoint(deps, endpoint);
  await endPart();
  t.is(await countPending(), 1);
});

test.serial(
  "what the server of an earlier URL responds does not concern the new one",
  async (t) => {
    const { deps, endpoint, receiver, record, deliver, deliveries, disabled, pass } =
      await setUpWebhooks(t);
    const successor = await startReceiver(t);
    /** Moves the endpoint while the server of its URL has a request, and then responds. */
    const moveBefore =
      (url: string, status: number) =>
      (response: ServerResponse): void => {
        updateWebhookEndpoint(deps, endpoint, { url }).then(
          () => answer(status)(response),
          () => response.destroy(),
        );
      };

    receiver.respond(moveBefore(successor.url, 410));
    await record("gone");
    await deliver();
    const moved = { url: successor.url, disabledReason: null, failingSince: null };
    t.like(await findEndpoint(deps.db, endpoint.id), moved);
    t.deepEqual(disabled, []);

    successor.respond(moveBefore(receiver.url, 500));
    await record("failed");
    await deliver();
    t.like(await findEndpoint(deps.db, endpoint.id), { url: receiver.url, failingSince: null });

    receiver.respond(answer(500));
    pass(HOUR_MS);
    await deliver();
    const failing = await findEndpoint(deps.db, endpoint.id);
    t.truthy(failing?.failingSince);
    await recordEndpointResults(deps.db, [
      { endpointId: endpoint.id, url: successor.url, hasSucceeded: true, failedAt: null },
    ]);
    t.deepEqual(await findEndpoint(deps.db, endpoint.id), failing);
    t.like(await deliveries(), [{ state: "failed" }, { state: "pending", attempts: 2 }]);
  },
);
