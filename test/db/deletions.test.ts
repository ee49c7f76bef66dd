import type { DatabasePool } from "slonik";
import { z } from "zod";
import { deleteOldReconciliations } from "../../modules/billing/reconciliation/reconciliations.sql.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { deleteDeliveriesBefore } from "../../modules/events/deliveries.sql.ts";
import type { DeliveryPlace } from "../../modules/events/deliveries.sql.ts";
import { deleteInBatches, deleteInOrder } from "../../db/batching/deleteInBatches.ts";
import { deleteOldEvents } from "../../modules/events/deleteOldEvents.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { openTestPool, testWithDatabase } from "../support/database.ts";

// Serial, because each test counts the pages of its tables.
const test = testWithDatabase();

/* No vacuum removes what earlier batches have deleted, as in a long deletion on a busy server. */

const TABLES = ["event", "webhook_delivery", "webhook_endpoint", "reconciliation"];
const ACCOUNTS = 100;
/** Of each account and table. Half of the rows are old, and five batches delete those of an account. */
const ROWS = 200;
const BATCH_ROWS = 20;

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
  await filler.query(sql.typeAlias("void")`
    INSERT INTO event_day (day, recorded_at, transaction_id)
    SELECT time::date, time, '4'
    FROM (SELECT ${OLD.toISOString()}::timestamptz + interval '1 day' AS time) AS given
  `);
};

const insertRows = async (filler: DatabasePool): Promise<void> => {
  const time = sql.fragment`${OLD.toISOString()}::timestamptz + (number - ${ROWS / 2}) * interval '1 minute'`;
  const ofAccounts = sql.fragment`
    FROM account
    CROSS JOIN generate_series(1, ${ROWS}::integer) AS number
    CROSS JOIN LATERAL (SELECT ${time} AS time) AS given
    ORDER BY number
  `;
  await filler.query(sql.typeAlias("void")`
    INSERT INTO account (id, type, name, created_at)
    SELECT gen_random_uuid(), 'organization', number::text, now()
    FROM generate_series(1, ${ACCOUNTS}::integer) AS number
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO webhook_endpoint (id, account_id, mode, url, description, created_at)
    SELECT id, id, 'live', 'https://example.com', '', now() FROM account
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, state, created_at)
    SELECT account.id, gen_random_uuid(), 'donation.created', time, '{}', 'delivered', time
    ${ofAccounts}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO reconciliation (id, is_complete, start_second, end_second, started_at, ended_at, asked)
    SELECT gen_random_uuid(), true, 1, 2, ${time}, ${time}, 0
    FROM generate_series(1, ${ROWS}::integer) AS number
  `);
};

/** So many that each batch would read them all if they were sorted. */
const BUSY_DELIVERIES = 20_000;

/** Inserts old deliveries of one endpoint, in a random order. */
const insertDeliveriesOfOne = async (filler: DatabasePool): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, state, created_at)
    SELECT id, gen_random_uuid(), 'donation.created', time, '{}', 'delivered', time
    FROM (SELECT id FROM webhook_endpoint LIMIT 1) AS endpoint
    CROSS JOIN generate_series(1, ${BUSY_DELIVERIES}::integer) AS number
    CROSS JOIN LATERAL (
      SELECT ${OLD.toISOString()}::timestamptz - number * interval '1 second' AS time
    ) AS given
    ORDER BY random()
  `);
};

test.serial(
  "a deletion in batches reads each row a few times, however many it has deleted",
  async (t) => {
    const { filler, db } = await openSinglePools(t);
    await stopAutovacuum(filler, TABLES);
    await insertRows(filler);
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
    await insertDeliveriesOfOne(filler);
    const before = new Date(OLD.getTime() + 1);
    const { signal } = new AbortController();
    const deletions = [
      {
        name: "deliveries",
        run: () =>
          deleteInOrder<DeliveryPlace>(
            (limit, from) =>
              db.transaction((transaction) =>
                deleteDeliveriesBefore(transaction, { from, time: OLD }, limit),
              ),
            signal,
            BATCH_ROWS,
          ),
        deleted: (ACCOUNTS * ROWS) / 2 + BUSY_DELIVERIES,
        // It was 36 when each batch searched all endpoints, and 30 when it sorted all deliveries of the busy one.
        maximumPages: 20,
      },
      {
        name: "reconciliations",
        run: () =>
          deleteInBatches(
            (limit) => deleteOldReconciliations(db, before, limit),
            signal,
            BATCH_ROWS,
          ),
        deleted: ROWS / 2,
        maximumPages: 20,
      },
    ];
    const countPages = await createPageCounter(filler, db, TABLES);
    for (const { name, run, deleted: expected, maximumPages } of deletions) {
      let deleted = 0;
      const pages = await countPages(async () => {
        deleted = await run();
      });
      t.is(deleted, expected, name);
      t.true(
        pages <= maximumPages * deleted,
        `${name}: ${(pages / deleted).toFixed(0)} pages of a row`,
      );
    }
  },
);

test.serial("a batch that ends within an endpoint deletes its oldest deliveries", async (t) => {
  const { db, ownerUrl } = t.context;
  const filler = await openTestPool(t, ownerUrl, 1);
  await filler.query(sql.typeAlias("void")`TRUNCATE webhook_delivery, webhook_endpoint CASCADE`);
  await filler.query(sql.typeAlias("void")`
    WITH owner AS (
      INSERT INTO account (id, type, name, created_at)
      VALUES (gen_random_uuid(), 'organization', 'few', now())
      RETURNING id
    ),
    endpoint AS (
      INSERT INTO webhook_endpoint (id, account_id, mode, url, description, created_at)
      SELECT gen_random_uuid(), id, 'live', 'https://example.com/' || number, '', now()
      FROM owner
      CROSS JOIN generate_series(1, 3) AS number
      RETURNING id
    )
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, state, created_at)
    SELECT id, gen_random_uuid(), 'donation.created', time, '{}', 'delivered', time
    FROM endpoint
    CROSS JOIN generate_series(1, 50) AS number
    CROSS JOIN LATERAL (
      SELECT ${OLD.toISOString()}::timestamptz - number * interval '1 minute' AS time
    ) AS given
  `);
  // So that the few endpoints are sorted, and not read in their order.
  await filler.query(sql.typeAlias("void")`ANALYZE webhook_endpoint, webhook_delivery`);

  const deleted = await deleteInOrder<DeliveryPlace>(
    (limit, from) =>
      db.transaction((transaction) =>
        deleteDeliveriesBefore(transaction, { from, time: OLD }, limit),
      ),
    new AbortController().signal,
    70,
  );

  t.is(deleted, 150);
});

test.serial("events that stay are read once, however many batches are deleted", async (t) => {
  const { filler, db } = await openSinglePools(t);
  await stopAutovacuum(filler, TABLES);
  await insertEvents(filler);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) event`);
  const clock = { now: () => new Date(OLD.getTime() + 32 * DAY_MS) };
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
});
