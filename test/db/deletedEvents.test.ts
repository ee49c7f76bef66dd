import type { DatabasePool } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";
import { deleteOldEvents } from "../../modules/events/deleteOldEvents.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

/* No vacuum removes what earlier batches have deleted, as in a long deletion on a busy server. */

const OLD = new Date("2026-10-01T00:00:00Z");
const DAY_MS = 24 * 60 * 60 * 1000;

const countRow = z.strictObject({ count: safeInteger });

/** The newest event of each account stays. In the order of time, all of those are before the events to delete. */
const KEPT_EVENTS = 5000;
const DELETED_EVENTS = 10_000;
const BUSY_ACCOUNTS = 100;
/** Each event is compared with a newer one. When each batch compared those that stay again, it was 20 pages. */
const MAXIMUM_EVENT_PAGES = 10;

const insertEvents = async (filler: DatabasePool): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    WITH keeper AS (
      INSERT INTO account (id, type, name, created_at)
      SELECT gen_random_uuid(), 'organization', 'keeper', now()
      FROM generate_series(1, ${KEPT_EVENTS}::integer)
      RETURNING id
    )
    INSERT INTO event (id, account_id, mode, type, transaction_id, created_at, data)
    SELECT gen_random_uuid(), id, 'live', 'donation.created', '3', ${OLD.toISOString()}, '{}' FROM keeper
  `);
  await filler.query(sql.typeAlias("void")`
    WITH busy AS (
      INSERT INTO account (id, type, name, created_at)
      SELECT gen_random_uuid(), 'organization', 'busy', now()
      FROM generate_series(1, ${BUSY_ACCOUNTS}::integer)
      RETURNING id
    )
    INSERT INTO event (id, account_id, mode, type, transaction_id, created_at, data)
    SELECT
      gen_random_uuid(), id, 'live', 'donation.created', '3',
      ${OLD.toISOString()}::timestamptz + (number + 1) * interval '1 second', '{}'
    FROM busy
    CROSS JOIN generate_series(0, ${DELETED_EVENTS / BUSY_ACCOUNTS}::integer) AS number
  `);
  // Each has a delivery, which leaves with it.
  await filler.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (event_id, endpoint_id, state, created_at)
    SELECT id, account_id, 'delivered', created_at FROM event
  `);
};

test("events that stay are read once, however many batches are deleted", async (t) => {
  const { filler, db } = await openSinglePools(t);
  await stopAutovacuum(filler, ["event"]);
  await insertEvents(filler);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) event, webhook_delivery`);
  const clock = { now: () => new Date(OLD.getTime() + 33 * DAY_MS) };
  const countPages = await createPageCounter(filler, db, ["event"]);

  const pages = await countPages(async () => {
    t.is(await deleteOldEvents({ db, clock }, new AbortController().signal), DELETED_EVENTS);
  });

  const pagesPerEvent = pages / (KEPT_EVENTS + DELETED_EVENTS);
  t.true(pagesPerEvent <= MAXIMUM_EVENT_PAGES, `${pagesPerEvent.toFixed(1)} pages of an event`);
  t.is(
    await filler.oneFirst(sql.type(countRow)`SELECT count(*) FROM event`),
    KEPT_EVENTS + BUSY_ACCOUNTS,
  );
  t.is(
    await filler.oneFirst(sql.type(countRow)`SELECT count(*) FROM webhook_delivery`),
    KEPT_EVENTS + BUSY_ACCOUNTS,
  );
});
