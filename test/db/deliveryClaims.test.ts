import { claimDeliveries } from "../../modules/events/attempts.sql.ts";
import { listDeliveries } from "../../modules/events/deliveries.sql.ts";
import { sql } from "../../db/sql.ts";
import { newId } from "../../runtime/newId.ts";
import { insertDeliveries, insertEndpoints } from "../events/insertDeliveries.ts";
import { testWithDatabase } from "../support/database.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";

const test = testWithDatabase();

const TABLES = ["webhook_delivery", "webhook_endpoint"];
/** As many as a recovery makes due at the same time. */
const DELIVERIES = 5000;
/** The row that is claimed has 17: two versions, and their entries in the indexes. The pending ones have more than 100. */
const MAXIMUM_PAGES = 40;

test("neither a claim nor a list of deliveries in a rare state reads all deliveries of an endpoint", async (t) => {
  const { filler, db: single } = await openSinglePools(t);
  await stopAutovacuum(filler, TABLES);
  const countPages = await createPageCounter(filler, single, TABLES);
  const check = async (work: Parameters<typeof countPages>[0]): Promise<void> => {
    const pages = await countPages(work);
    t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${pages} pages`);
  };
  const endpointId = newId();
  await insertEndpoints(filler, [endpointId]);
  await insertDeliveries(filler, [endpointId], DELIVERIES, { state: "delivered" });
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) webhook_delivery`);
  const now = new Date(0);
  await insertDeliveries(filler, [endpointId], 3, { state: "failed", now });
  await insertDeliveries(filler, [endpointId], 3, { now });
  for (const state of ["failed", "pending"] as const) {
    await check(async (db) => {
      t.is((await listDeliveries(db, endpointId, { state, limit: 10 })).length, 3);
    });
  }

  const busyId = newId();
  await insertEndpoints(filler, [busyId], { deliveries: DELIVERIES });
  await check(async (db) => {
    t.is((await claimDeliveries(db, [{ endpointId: busyId, places: 1 }], new Date())).length, 1);
  });
});
