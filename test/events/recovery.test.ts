import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { newId } from "../../runtime/newId.ts";
import { recoverWebhookEvents } from "../../modules/events/recoverWebhookEvents.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { setUpWebhooks } from "./webhookScene.ts";

const test = testWithDatabase();

const TABLES = ["event"];
const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** Of one call. */
const PART = 5000;

/** Sets up an endpoint, and a pool of one connection whose pages of events are counted. */
const setUp = async (
  t: ExecutionContext<DatabaseContext>,
  options: { readonly types?: string[] } = {},
) => {
  const { filler, db } = await openSinglePools(t);
  await stopAutovacuum(filler, TABLES);
  const scene = await setUpWebhooks(t, options);
  const { accountId, clock } = scene;
  /** Inserts events that the endpoint has missed, in the order of their ids. */
  const miss = (count: number) =>
    filler.query(sql.typeAlias("void")`
      INSERT INTO event (id, account_id, mode, type, created_at, data)
      SELECT
        (${newId().slice(0, 24)} || lpad(to_hex(number), 12, '0'))::uuid,
        ${accountId},
        'live',
        'usage.failed',
        ${clock.now().toISOString()}::timestamptz,
        '{"kind":"tree","count":1,"registered_at":"2025-06-01T12:00:00.000Z"}'
      FROM generate_series(1, ${count}::integer) AS number
    `);
  return {
    ...scene,
    filler,
    db,
    miss,
    /** Those of the events and of their order. */
    allPages: () =>
      filler.oneFirst(sql.type(z.strictObject({ pages: z.int() }))`
        SELECT (
          (pg_relation_size('event') + pg_relation_size('event_feed')) / current_setting('block_size')::integer
        )::integer AS pages
      `),
    startCounting: () => createPageCounter(filler, db, TABLES),
  };
};

test.serial(
  "a repeated recovery does not read the events of the calls before it, until the last one",
  async (t) => {
    const { deps, endpoint, clock, db, miss, allPages, startCounting } = await setUp(t);
    await miss(3 * PART + 2);
    const countPages = await startCounting();
    const positions = new Map();
    const since = clock.now();
    const results: unknown[] = [];
    const pages: number[] = [];
    for (let call = 0; call < 4; call += 1) {
      pages.push(
        await countPages(async (pool: DatabasePool) => {
          results.push(
            await recoverWebhookEvents({ ...deps, db: pool }, endpoint, since, positions),
          );
        }),
      );
    }
    t.deepEqual(results, [
      { recovered: PART, hasMore: true },
      { recovered: PART, hasMore: true },
      { recovered: PART, hasMore: true },
      { recovered: 2, hasMore: false },
    ]);
    t.is(positions.size, 0);
    const all = await allPages();
    t.true(
      pages.slice(0, 3).every((count) => count > 0 && count < all / 2),
      `${pages.join(", ")} of ${all}`,
    );
    t.like(await recoverWebhookEvents({ ...deps, db }, endpoint, since), { recovered: 0 });
  },
);

test.serial("a recovery does not read events of days before its time", async (t) => {
  const { deps, endpoint, clock, pass, filler, miss, allPages, startCounting } = await setUp(t);
  await miss(PART);
  pass(DAY_MS);
  // Not the oldest open transaction, which may be another test's.
  await filler.query(sql.typeAlias("void")`
    INSERT INTO event_day (day, recorded_at, transaction_id)
    VALUES (current_date, ${clock.now().toISOString()}::timestamptz, pg_current_xact_id())
  `);
  pass(2 * HOUR_MS);
  const since = clock.now();
  await miss(3);
  const countPages = await startCounting();
  const pages = await countPages(async (db) => {
    t.deepEqual(await recoverWebhookEvents({ ...deps, db }, endpoint, since), {
      recovered: 3,
      hasMore: false,
    });
  });
  t.true(pages > 0 && pages < (await allPages()) / 4, `${pages} pages`);
});

test.serial(
  "what failed again before the place where a recovery continues is recovered over HTTP",
  async (t) => {
    const { deps, accountId, endpoint, clock, filler, miss } = await setUp(t);
    await miss(2 * PART);
    const { call } = await startStandaloneApi(t, { db: deps.db, clock });
    const { key } = await issueKey(deps, { id: accountId, type: "organization" }, "live");
    const since = clock.now().toISOString();
    const recover = async () =>
      (await call("POST", `/webhook_endpoints/${endpoint.id}/recover`, { key, body: { since } }))
        .body;
    t.deepEqual(await recover(), { recovered_count: PART, has_more: true });
    await filler.query(sql.typeAlias("void")`
      UPDATE webhook_delivery SET state = 'failed', due_at = NULL WHERE endpoint_id = ${endpoint.id}
    `);
    t.deepEqual(await recover(), { recovered_count: PART, has_more: true });
    t.deepEqual(await recover(), { recovered_count: PART, has_more: false });
    t.deepEqual(await recover(), { recovered_count: 0, has_more: false });
  },
);

test.serial("events copied from another server and renumbered are recovered", async (t) => {
  const { deps, accountId, endpoint, clock, pass, filler, miss } = await setUp(t);
  const since = clock.now();
  await miss(2);
  pass(DAY_MS);
  // As docs/backup.md says.
  await filler.query(sql.typeAlias("void")`
    UPDATE event SET transaction_id = '0' WHERE account_id = ${accountId}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO event_day (day, recorded_at, transaction_id) VALUES ('2000-01-01', '2000-01-01', pg_current_xact_id())
  `);
  t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 2 });
  await filler.query(sql.typeAlias("void")`DELETE FROM event_day WHERE day = '2000-01-01'`);
});

test.serial(
  "events that were copied from another server and not renumbered are recovered",
  async (t) => {
    const { deps, endpoint, clock, pass, filler, miss } = await setUp(t);
    await filler.query(sql.typeAlias("void")`
    INSERT INTO event_day (day, recorded_at, transaction_id)
    VALUES ('2000-01-02', ${clock.now().toISOString()}::timestamptz, '1000000000000')
  `);
    pass(2 * HOUR_MS);
    const since = clock.now();
    await miss(2);
    t.like(await recoverWebhookEvents(deps, endpoint, since), { recovered: 2 });
    await filler.query(sql.typeAlias("void")`DELETE FROM event_day WHERE day = '2000-01-02'`);
  },
);

test.serial("an endpoint whose types were given twice recovers its events", async (t) => {
  const { deps, endpoint, clock, miss } = await setUp(t, {
    types: ["usage.failed", "usage.failed"],
  });
  await miss(2);
  t.like(await recoverWebhookEvents(deps, endpoint, clock.now()), { recovered: 2 });
});
