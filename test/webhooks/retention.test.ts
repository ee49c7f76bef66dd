import { sql } from "../../db/sql.ts";
import { deleteOldDeliveries } from "../../services/webhooks/deleteOldDeliveries.ts";
import { deleteWebhookEndpoint } from "../../services/webhooks/deleteWebhookEndpoint.ts";
import { testWithDatabase } from "../support/database.ts";
import { setUpWebhooks } from "./webhookScene.ts";

const test = testWithDatabase();

const DAY_MS = 24 * 60 * 60 * 1000;

// In a file of its own, because it deletes the deliveries of all endpoints.
test("deliveries are deleted after 30 days, and those of a deleted endpoint with it", async (t) => {
  const { deps, endpoint, record, deliver, deliveries, pass } = await setUpWebhooks(t);
  const clean = () => deleteOldDeliveries(deps, new AbortController().signal);
  await record("old");
  await deliver();
  pass(30 * DAY_MS - 1);
  await record("new");
  await deliver();
  await clean();
  t.is((await deliveries()).length, 2);
  pass(1);
  await clean();
  t.is((await deliveries()).length, 1);
  await deleteWebhookEndpoint(deps, endpoint);
  pass(DAY_MS);
  await clean();
  t.deepEqual(await deliveries(), []);
  await clean();
  const { rowCount } = await deps.db.query(sql.typeAlias("void")`
    SELECT FROM webhook_endpoint WHERE id = ${endpoint.id}
  `);
  t.is(rowCount, 0);
});
