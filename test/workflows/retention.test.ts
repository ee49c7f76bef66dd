import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createRetentionActivities } from "../../activities/createRetentionActivities.ts";
import { sql } from "../../db/sql.ts";
import { deleteOldData } from "../../modules/support/deleteOldData.ts";
import { retention } from "../../workflows/retention.ts";
import { startDonationApi } from "../charities/donations/donationSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { startWorker } from "./startWorker.ts";

// Serial, because what is old is deleted in the whole database.
const test = testWithDatabase().serial;
const NEVER = new AbortController().signal;

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

/** Rows that two batches delete. */
const OLD_ROWS = 1500;
const NOW = new Date("2027-01-01T00:00:00Z");
const deps = { clock: { now: () => NOW } };

const insertOldRows = async (db: DatabasePool): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO processor_event (id, type, received_at, next_attempt_at, state, settled_at)
    SELECT 'old-' || number, 'customer.deleted', time, time, 'processed', time
    FROM generate_series(1, ${OLD_ROWS}::integer) AS number
    CROSS JOIN (SELECT '2026-01-01'::timestamptz AS time) AS given
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO reconciliation (started_at, ended_at, streams, unreadable)
    VALUES ('2025-01-01', '2025-01-01', 0, '[]')
  `);
};

const countRow = z.strictObject({ processorEvents: z.int(), reconciliations: z.int() });

const countRows = (db: DatabasePool): Promise<z.output<typeof countRow>> =>
  db.one(sql.type(countRow)`
    SELECT
      (SELECT count(*)::integer FROM processor_event) AS "processorEvents",
      (SELECT count(*)::integer FROM reconciliation) AS "reconciliations"
  `);

test("a deletion that fails is reported, and the others are made", async (t) => {
  const { db, owner } = t.context;
  await insertOldRows(db);
  await owner.query(sql.typeAlias("void")`
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$
  `);
  await owner.query(sql.typeAlias("void")`
    CREATE TRIGGER broken BEFORE DELETE ON processor_event EXECUTE FUNCTION fail()
  `);

  const error = await t.throwsAsync(deleteOldData({ db, ...deps }, NEVER), {
    instanceOf: AggregateError,
    message: /^processorEvents: .*broken/u,
  });

  t.is(error.errors.length, 1);
  t.deepEqual(await countRows(db), { processorEvents: OLD_ROWS, reconciliations: 0 });
  await owner.query(sql.typeAlias("void")`DROP TRIGGER broken ON processor_event`);
  t.like(await deleteOldData({ db, ...deps }, NEVER), { processorEvents: OLD_ROWS });
});

test("a deletion that takes long continues after the others are made", async (t) => {
  const { db } = t.context;
  await insertOldRows(db);

  await t.throwsAsync(deleteOldData({ db, ...deps }, NEVER, 1), {
    message: /^processorEvents: TimeoutError/u,
  });

  t.deepEqual(await countRows(db), { processorEvents: 500, reconciliations: 0 });
  t.like(await deleteOldData({ db, ...deps }, NEVER), { processorEvents: 500 });
});
