import { sql } from "../../db/sql.ts";
import { claimDeliveries } from "../../modules/events/attempts.sql.ts";
import { newId } from "../../runtime/newId.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";

const test = testWithDatabase();

const TABLES = ["webhook_delivery", "webhook_endpoint"];
/** As many as a recovery makes due at the same time. */
const DELIVERIES = 5000;
/** The row that is claimed has 17: two versions, and their entries in three indexes. The pending ones have more than 100. */
const MAXIMUM_PAGES = 40;

test("a claim does not read all deliveries that became due at the same time", async (t) => {
  const { filler, db: single } = await openSinglePools(t);
  await stopAutovacuum(filler, TABLES);
  const { id: accountId } = await createTestOrganization(t.context.db);
  const endpointId = newId();
  await filler.query(sql.typeAlias("void")`
    INSERT INTO webhook_endpoint (id, account_id, mode, url, description, created_at)
    VALUES (${endpointId}, ${accountId}, 'live', 'https://example.com', '', now())
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
    SELECT ${endpointId}, gen_random_uuid(), 'ping', now(), '{}', now(), now()
    FROM generate_series(1, ${DELIVERIES}::integer)
  `);
  const countPages = await createPageCounter(filler, single, TABLES);
  const now = new Date(Date.now() + 1000);

  const pages = await countPages(async (db) => {
    t.is((await claimDeliveries(db, [{ endpointId, places: 1 }], now)).length, 1);
  });

  t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${pages} pages`);
});
