import type { DatabasePool } from "slonik";
import { z } from "zod";
import { readFeedPage } from "../../modules/feed/feed.sql.ts";
import { listEvidenceTrees } from "../../modules/planting/treeEvidence.sql.ts";
import { findListPosition, readPage } from "../../modules/registrations/registrationPages.sql.ts";
import {
  findOwnRegistration,
  insertRegistrations,
  listByIdempotencyKeys,
} from "../../modules/registrations/registrations.sql.ts";
import { findRegistrationUsage } from "../../modules/registrations/registrationUsage.sql.ts";
import { insertRefunds, lockRegistrations } from "../../modules/registrations/refunds.sql.ts";
import { sql } from "../../db/sql.ts";
import { EVENT_TYPES } from "../../modules/events/events.rules.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { insertTestKeys } from "../support/insertTestKeys.ts";
import { eventually } from "../support/programs.ts";

const test = testWithDatabase();

/** After so many executions, PostgreSQL keeps the plan of a prepared statement. */
const EXECUTIONS = 8;
/** They have 1,200 pages. */
const RECORDS = 50_000;
const FEW_RECORDS = 60;
const TRANSACTION_RECORDS = 200;
const MAXIMUM_PAGES = 100;
const TABLES = ["registration", "idempotency_key"];

/** Their next orders have 160 pages. */
const ACCOUNTS = 20_000;
const MAXIMUM_PAGES_OF_ORDER = 20;

/** In many transactions, because a page of the feed reads all of its last one. */
const insertRecords = async (
  filler: DatabasePool,
  accountId: string,
  from: number,
  to: number,
): Promise<void> => {
  for (let first = from; first <= to; first += TRANSACTION_RECORDS) {
    await filler.query(sql.typeAlias("void")`
      INSERT INTO registration
        (id, account_id, mode, kind, count, created_at, attribution, idempotency_key, usage_batch)
      SELECT
        gen_random_uuid(), ${accountId}, 'live', 'tree', 100,
        '2026-11-01'::timestamptz - number * interval '1 second', 'campaign-' || number % 100, 'key-' || number, 0
      FROM generate_series(${first}::integer, ${Math.min(first + TRANSACTION_RECORDS - 1, to)}::integer) AS number
    `);
  }
  await insertTestKeys(filler, "registration", "plant", accountId);
};

const idRow = z.strictObject({ id: z.uuid() });

const positionRow = z.strictObject({ transactionId: z.string().transform(BigInt), id: z.uuid() });

const findNewestEvent = (db: DatabasePool) =>
  db.one(sql.type(positionRow)`
    SELECT transaction_id::text AS "transactionId", id FROM registration ORDER BY transaction_id DESC, id DESC LIMIT 1
  `);

const nameRow = z.strictObject({ name: z.string() });

test.serial(
  "a plan that was made for few registrations is not kept when there are many",
  async (t) => {
    const { filler, db } = await openSinglePools(t);
    const { id: accountId } = await createTestOrganization(db);
    // The plans are not made again because of new statistics.
    await stopAutovacuum(filler, TABLES);
    await insertRecords(filler, accountId, 1, FEW_RECORDS);
    await filler.query(sql.typeAlias("void")`ANALYZE`);
    const id = await db.oneFirst(sql.type(idRow)`SELECT id FROM registration LIMIT 1`);
    const owner = { accountId, mode: "live", kind: "tree" } as const;
    const now = new Date();
    const page = {
      after: null,
      limits: { rows: 21, bytes: 1_000_000 },
      separator: ",",
      now,
    } as const;
    const firstEvents = {
      owner: { accountId, mode: "live" },
      types: EVENT_TYPES,
      after: null,
      keptSince: now,
      limits: { events: 20, bytes: 1_000_000 },
    } as const;
    const newRefund = () => ({
      id: crypto.randomUUID(),
      registrationId: id,
      count: 1,
      reason: null,
      idempotencyKey: crypto.randomUUID(),
      createdAt: now.toISOString(),
    });
    let newest = await findNewestEvent(filler);
    const operations: Readonly<Record<string, (single: DatabasePool) => Promise<unknown>>> = {
      "a page": (single) => readPage(single, owner, {}, page),
      "a page of an attribution": (single) =>
        readPage(single, owner, { attribution: "campaign-1" }, page),
      "a registration of the list": (single) => readPage(single, owner, { id }, page),
      "the position of a registration": (single) => findListPosition(single, owner, id),
      "a registration": (single) => findOwnRegistration(single, owner, id),
      "a registration by its key": (single) => listByIdempotencyKeys(single, owner, ["key-7"]),
      "its refund": (single) =>
        single.transaction((transaction) =>
          insertRefunds(transaction, [{ ...owner, ...newRefund() }], false, [], now),
        ),
      "its lock": (single) =>
        single.transaction((transaction) => lockRegistrations(transaction, [{ ...owner, id }])),
      "its usage": (single) => findRegistrationUsage(single, owner, id),
      "its evidence": (single) => listEvidenceTrees(single, [{ ...owner, id }]),
      "the first events": (single) => readFeedPage(single, firstEvents),
      "the events after the newest": (single) =>
        readFeedPage(single, { ...firstEvents, after: newest }),
    };
    // So that PostgreSQL keeps their plans, which read the few pages of the table.
    for (const operation of Object.values(operations)) {
      for (let execution = 0; execution < EXECUTIONS; execution += 1) {
        await operation(db);
      }
    }
    const planned = await db.anyFirst(sql.type(nameRow)`
    SELECT name FROM pg_prepared_statements WHERE generic_plans = 0
  `);
    t.deepEqual(planned, [], "statements that are planned each time");
    await insertRecords(filler, accountId, FEW_RECORDS + 1, RECORDS);
    newest = await findNewestEvent(filler);

    const countPages = await createPageCounter(filler, db, TABLES);
    for (const operation of Object.values(operations)) {
      await eventually(async () => (await countPages(operation)) <= MAXIMUM_PAGES);
    }
    for (const [name, operation] of Object.entries(operations)) {
      const pages = await countPages(operation);
      t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${name}: ${pages} pages`);
    }
  },
);

test.serial(
  "a plan that was made while no account had a next order is not kept when many do",
  async (t) => {
    const { filler, db } = await openSinglePools(t);
    const { id: accountId } = await createTestOrganization(filler);
    await stopAutovacuum(filler, ["next_planting_order"]);
    await filler.query(sql.typeAlias("void")`
    INSERT INTO account (id, type, name, billing_day, created_at)
    SELECT gen_random_uuid(), 'organization', 'Account', 1, now() FROM generate_series(1, ${ACCOUNTS}::integer)
  `);
    const openOrders = () =>
      filler.query(sql.typeAlias("void")`
      INSERT INTO next_planting_order (account_id, mode) SELECT id, 'live' FROM account WHERE id <> ${accountId}
    `);
    const register = (single: DatabasePool) =>
      insertRegistrations(
        single,
        [{ ...registrationOf(accountId), id: crypto.randomUUID() }],
        new Date(),
      );
    await openOrders();
    await filler.query(sql.typeAlias("void")`SELECT FROM pg_stat_force_next_flush()`);
    // The table was as large before, so its growth renews no plan.
    await register(db);
    await filler.query(sql.typeAlias("void")`DELETE FROM next_planting_order`);
    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) next_planting_order`);
    for (let execution = 0; execution < EXECUTIONS; execution += 1) {
      await register(db);
    }
    await openOrders();

    const countPages = await createPageCounter(filler, db, ["next_planting_order"]);
    const pages = await countPages(register);
    t.true(pages <= MAXIMUM_PAGES_OF_ORDER, `${pages} pages`);
  },
);
