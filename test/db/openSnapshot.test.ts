import { Client } from "pg";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { deleteProcessedEvents } from "../../modules/billing/processorEvents/processorEvents.sql.ts";
import { listOldestUnsealedFacts } from "../../modules/billing/sending/sealMeterEvents.sql.ts";
import { sql } from "../../db/sql.ts";
import { deleteBefore } from "../../db/batching/deleteInBatches.ts";
import type { Deleted } from "../../db/batching/deleteInBatches.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

/** Facts of different accounts are recorded in turn, so those of one are in different pages. */
const ACCOUNTS = 200;
const SECONDS = 100;

test.serial(
  "sealing reads no facts that were sealed before while a snapshot is open, unless it looks for earlier seconds",
  async (t) => {
    const { databaseUrl, owner } = t.context;
    const { filler, db: reader } = await openSinglePools(t);
    const snapshot = new Client({ connectionString: databaseUrl });
    await snapshot.connect();
    t.teardown(() => snapshot.end());
    await stopAutovacuum(owner, ["usage_fact", "meter_event"]);
    const accountIds = await filler.anyFirst(sql.type(z.strictObject({ id: z.uuid() }))`
      INSERT INTO account (id, type, name, created_at)
      SELECT gen_random_uuid(), 'organization', number::text, now()
      FROM generate_series(1, ${ACCOUNTS}::integer) AS number
      RETURNING id
    `);
    await snapshot.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await snapshot.query("SELECT FROM account");

    await filler.query(sql.typeAlias("void")`
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
      SELECT id, 'live', 'tree', nextval('usage_batch'), 1, second
      FROM generate_series(1, ${SECONDS}::integer) AS second
      CROSS JOIN account
    `);
    await filler.query(sql.typeAlias("void")`
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
      SELECT account_id, mode, kind, second, 1, quantity, id, 'ledger', 'delivered', now(), now()
      FROM usage_fact
    `);
    await filler.query(sql.typeAlias("void")`
      UPDATE usage_fact
      SET meter_event_id = meter_event.id
      FROM meter_event
      WHERE meter_event.identifier = usage_fact.id::text
    `);
    await filler.query(sql.typeAlias("void")`
      INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
      SELECT id, 'live', 'tree', nextval('usage_batch'), 1, ${SECONDS + 1}::integer
      FROM account
    `);
    const [accountId = ""] = accountIds;
    const count = await createPageCounter(filler, reader, ["usage_fact"]);
    const seal = (firstSecond: number) =>
      count((db) =>
        db.transaction(async (transaction) => {
          const stream = { accountId, mode: "live", kind: "tree", firstSecond } as const;
          const [parts] = await listOldestUnsealedFacts(
            transaction,
            [{ ...stream, current: { processor: "ledger", customerId: null } }],
            { lastSecond: SECONDS + 1, facts: 1, doubtedFactId: null },
          );
          t.is(parts?.length, 1);
        }),
      );
    // Planning reads some pages the first time.
    await seal(SECONDS + 1);
    const pages = await seal(SECONDS + 1);
    t.true(pages < 20, `${pages} pages`);
    t.true((await seal(0)) > SECONDS);
  },
);

const OLD = new Date("2026-10-01T00:00:00Z");
const BATCHES = 10;
const BATCH_ROWS = 100;

/** Inserts old rows in a random order, so that those of a batch are in different pages. */
const insertOldRows = async (filler: DatabasePool): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO processor_event (id, type, received_at, next_attempt_at, state, settled_at)
    SELECT number::text, 'customer.subscription.updated', time, time, 'processed', time
    FROM (
      SELECT number, ${OLD.toISOString()}::timestamptz - number * interval '1 minute' AS time
      FROM generate_series(1, ${BATCHES * BATCH_ROWS}::integer) AS number
      ORDER BY random()
    ) AS given
  `);
};

const BATCH_TABLES = ["processor_event"];

test.serial(
  "while a snapshot is open, a batch reads nothing of what earlier ones have done",
  async (t) => {
    const { filler, db } = await openSinglePools(t);
    const snapshot = new Client({ connectionString: t.context.databaseUrl });
    await snapshot.connect();
    t.teardown(() => snapshot.end());
    await stopAutovacuum(filler, BATCH_TABLES);
    await insertOldRows(filler);
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
    await snapshot.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await snapshot.query("SELECT FROM account");
    const countPages = await createPageCounter(filler, db, BATCH_TABLES);
    const pages: number[] = [];
    const deleted = await deleteBefore(
      async (_, span, limit) => {
        const batch = Promise.withResolvers<Deleted>();
        pages.push(
          await countPages(async () => batch.resolve(await deleteProcessedEvents(db, span, limit))),
        );
        return batch.promise;
      },
      { db, before: new Date(OLD.getTime() + 1) },
      new AbortController().signal,
      BATCH_ROWS,
    );

    t.is(deleted, BATCHES * BATCH_ROWS);
    const [first = 0] = pages;
    t.true((pages[BATCHES - 1] ?? 0) <= 1.5 * first, `${pages.join(", ")} pages`);
  },
);
