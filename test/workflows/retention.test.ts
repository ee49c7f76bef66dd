import { createRetentionActivities } from "../../activities/createRetentionActivities.ts";
import { countRow, sql } from "../../db/sql.ts";
import { deleteOldData } from "../../modules/support/deleteOldData.ts";
import { retention } from "../../workflows/retention.ts";
import { startDonationApi } from "../charities/donations/donationSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { startWorker } from "./startWorker.ts";

// Serial, because what is old is deleted in the whole database.
const test = testWithDatabase().serial;

test("the nightly workflow keeps what clients have recorded", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const { call, test: key } = await startDonationApi(t, { clock });
  t.is((await call("POST", "/plant/trees", { key, body: { count: 4 } })).status, 200);
  const donation = { amount_cents: 300, ein: "530196605" };
  t.is((await call("POST", "/charities/donate", { key, body: donation })).status, 200);
  clock.set("2026-06-01T02:00:00.000Z");
  const client = await startWorker(t, createRetentionActivities({ db, clock }));
  await client.workflow.execute(retention, { workflowId: "first", taskQueue: "test" });

  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 4);
  t.is((await call("GET", "/charities/donations", { key })).body["total_items"], 1);
});

const NOW = new Date("2027-01-01T00:00:00Z");
const deps = { clock: { now: () => NOW } };

/** Events that two batches delete. The newest one of a type stays. */
const OLD_EVENTS = 1500;

test("old events are deleted in batches", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO event (id, account_id, mode, type, created_at, data)
    SELECT gen_random_uuid(), ${accountId}, 'live', 'usage.failed', '2026-01-01', '{}'
    FROM generate_series(0, ${OLD_EVENTS}::integer)
  `);

  const deleted = await deleteOldData({ db, ...deps }, new AbortController().signal);

  t.deepEqual(deleted, { events: OLD_EVENTS });
  const left = await db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS count FROM event WHERE created_at = '2026-01-01'
  `);
  t.is(left, 1);
});
