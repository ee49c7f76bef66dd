import type { DatabasePool } from "slonik";
import { z } from "zod";
import { createRetentionActivities } from "../../activities/createRetentionActivities.ts";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { deleteOldData } from "../../modules/support/deleteOldData.ts";
import { drainUsage } from "../billing/drainUsage.ts";
import { retention } from "../../workflows/retention.ts";
import { startDonationApi } from "../charities/donations/donationSetup.ts";
import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { startWorker } from "./startWorker.ts";

// Serial, because what is old is deleted in the whole database.
const test = testWithDatabase().serial;
const NEVER = new AbortController().signal;

test("the nightly workflow deletes and records whatever is old enough, once", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const billing = createBilling({ db, stripe: null });
  const { call, accountId, test: key } = await startDonationApi(t, { clock });
  const { get, post, store } = await startStoreApiOf(t, {
    store: { balanceCents: 1000 },
    clock,
  });
  const planted = await call("POST", "/plant/trees", { key, body: { count: 4 } });
  t.is(planted.status, 200);
  const donation = { amount_cents: 300, ein: "530196605" };
  t.is((await call("POST", "/charities/donate", { key, body: donation })).status, 200);
  const order = { trees: 2, customer_name: "Ann Lee" };
  for (const headers of [store.test, store.live]) {
    const keyed = { ...headers, "Idempotency-Key": "order-1" };
    await post("/app/api/plant", keyed, order);
    await post("/app/api/refund", keyed, { type: "tree", quantity: 1 });
  }
  await issueKey({ db, clock, actor: SERVICE }, { id: accountId, type: "organization" }, "live", {
    name: "trial",
    scope: "read",
    expiresAt: new Date("2026-02-01T00:00:00.000Z"),
  });
  clock.set("2026-01-10T12:05:00.000Z");
  const stream = { accountId, mode: "test", kind: "tree" } as const;
  await drainUsage({ db, clock, billing }, stream);
  clock.set("2026-06-01T02:00:00.000Z");

  const client = await startWorker(t, createRetentionActivities({ db, clock, testDataDays: 90 }));
  const run = (workflowId: string) =>
    client.workflow.execute(retention, { workflowId, taskQueue: "test" });

  const first = await run("first");
  t.like(first, {
    testRegistrations: { registrations: 2 },
    testDonations: 1,
    testResponses: 1,
    expiredKeys: 1,
  });
  const trees = await call("GET", "/plant/trees", { key });
  t.like(trees.body, { total_planted_trees: 0, tree_details: [] });
  const donations = await call("GET", "/charities/donations", { key });
  t.is(donations.body["total_items"], 0);
  t.is((await get("/app/api/plant", store.test)).body["count"], 0);
  t.is((await get("/app/api/plant", store.live)).body["count"], 1);
  const replayed = await post(
    "/app/api/plant",
    { ...store.live, "Idempotency-Key": "order-1" },
    order,
  );
  t.is(replayed.headers.get("Idempotent-Replayed"), "true");
  const keys = sql.type(
    z.strictObject({ mode: z.string() }),
  )`SELECT DISTINCT mode FROM idempotency_key`;
  t.deepEqual(await db.anyFirst(keys), ["live"]);
  t.like(await run("second"), {
    testRegistrations: { registrations: 0 },
    testDonations: 0,
    testResponses: 0,
    expiredKeys: 0,
  });
});

/** Rows that two batches delete. */
const OLD_ROWS = 1500;
const NOW = new Date("2027-01-01T00:00:00Z");
const deps = { clock: { now: () => NOW }, testDataDays: 90 };

const insertOldRows = async (db: DatabasePool): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO processor_event (id, type, created_at, received_at, next_attempt_at, state, settled_at)
    SELECT 'old-' || number, 'customer.deleted', time, time, time, 'processed', time
    FROM generate_series(1, ${OLD_ROWS}::integer) AS number
    CROSS JOIN (SELECT '2026-01-01'::timestamptz AS time) AS given
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO reconciliation (started_at, ended_at, unreadable)
    VALUES ('2025-01-01', '2025-01-01', '[]')
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
