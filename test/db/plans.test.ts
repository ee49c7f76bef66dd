import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import {
  markImportedDonationsRefunded,
  listFurtherRefunded,
  raiseRefundedCounts,
} from "../../modules/history/furtherRefunds.sql.ts";
import { listRecordIds } from "../../modules/records/ownedRecords.sql.ts";
import { insertRegistrations } from "../../modules/registrations/registrations.sql.ts";
import { sql } from "../../db/sql.ts";
import { blankPage } from "../../modules/stores/personalData.sql.ts";
import { hasOnlyName, isOfCustomer } from "../../modules/stores/customers.sql.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { describeLookups, NAMES } from "./describeLookups.ts";
import { insertRecords } from "./insertRecords.ts";

const test = testWithDatabase();

const TABLES = [
  "registration",
  "donation",
  "usage_fact",
  "meter_event",
  "balance_entry",
  "refund",
  "idempotency_key",
];
const MAXIMUM_PAGES = 100;
/** Writes read the pages of many indexes. */
const MAXIMUM_PAGES_OF_WRITE = 300;

const nameRow = z.strictObject({ name: z.string() });

/** After so many executions, PostgreSQL keeps the plan of a prepared statement. */
const EXECUTIONS = 8;
const FEW_RECORDS = 60;

test.serial(
  "a look-up reads a few pages, whatever the statistics and the kept plans know of its account",
  async (t) => {
    const { filler, db } = await openSinglePools(t);
    const [known, unknown] = [await createTestOrganization(db), await createTestOrganization(db)];
    // The plans are not made again because of new statistics.
    await stopAutovacuum(filler, TABLES);
    await insertRecords(filler, known.id, { to: FEW_RECORDS });
    await filler.query(sql.typeAlias("void")`ANALYZE`);
    // So that PostgreSQL keeps their plans, which read the few pages of the tables.
    for (const lookup of Object.values(await describeLookups(db, known.id, 2))) {
      for (let execution = 0; execution < EXECUTIONS; execution += 1) {
        await lookup(db);
      }
    }
    const planned = await db.anyFirst(sql.type(nameRow)`
    SELECT name FROM pg_prepared_statements WHERE generic_plans = 0
  `);
    t.deepEqual(planned, [], "statements that are planned each time");
    await insertRecords(filler, known.id, { from: FEW_RECORDS + 1 });
    const grown = await describeLookups(db, known.id, 10_000);
    const countPages = await createPageCounter(filler, db, TABLES);
    for (const lookup of Object.values(grown)) {
      await eventually(async () => (await countPages(lookup)) <= MAXIMUM_PAGES);
    }

    await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
    await insertRecords(filler, unknown.id);
    const lookups = await describeLookups(db, unknown.id, 10_000);
    for (const [name, lookup] of Object.entries(lookups)) {
      const pages = await countPages(lookup);
      t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${name}: ${pages} pages`);
    }

    const [importedRegistrationId = ""] = await listRecordIds(
      db,
      "registration",
      "old-2",
      unknown.id,
    );
    const [importedDonationId = ""] = await listRecordIds(db, "donation", "old-2", unknown.id);
    const customer = {
      ids: ["customer-10000"],
      emails: ["10000@example.com"],
      orderIds: ["10000"],
    };
    const named = { identity: customer, names: NAMES };
    const unnamed = { identity: customer, names: [] };
    const erase = async (
      transaction: DatabaseTransactionConnection,
      selects: typeof isOfCustomer,
      table: "registration" | "donation",
      who: typeof named,
    ) => {
      const selection = { table, pageAfter: () => selects(table, unknown.id, who) };
      return (await blankPage(transaction, unknown.id, selection, null)).blanked;
    };
    // Each returns how many records it has changed.
    const writes: Readonly<Record<string, (db: DatabasePool) => Promise<number>>> = {
      "refunds of imported registrations": (single) =>
        single.transaction(async (transaction) => {
          const refunds = [{ id: importedRegistrationId, refundedCount: 1 }];
          const refunded = await listFurtherRefunded(transaction, refunds);
          await raiseRefundedCounts(transaction, refunded);
          return refunded.length;
        }),
      "refunds of imported donations": (single) =>
        single.transaction(async (transaction) => {
          const ids = [importedDonationId];
          return (await markImportedDonationsRefunded(transaction, ids)).length;
        }),
      "the erasure of a customer's registrations": (single) =>
        single.transaction((transaction) =>
          erase(transaction, isOfCustomer, "registration", unnamed),
        ),
      "the erasure of registrations with only a name": (single) =>
        single.transaction((transaction) => erase(transaction, hasOnlyName, "registration", named)),
      "the erasure of donations with only a name": (single) =>
        single.transaction((transaction) => erase(transaction, hasOnlyName, "donation", named)),
      "the erasure of a customer's donations": (single) =>
        single.transaction((transaction) => erase(transaction, isOfCustomer, "donation", unnamed)),
    };
    for (const [name, write] of Object.entries(writes)) {
      let changed = 0;
      const pages = await countPages(async (single) => {
        changed = await write(single);
      });
      t.is(changed, 1, name);
      t.true(pages > 0 && pages <= MAXIMUM_PAGES_OF_WRITE, `${name}: ${pages} pages`);
    }
  },
);

/** Their next orders have 160 pages. */
const ACCOUNTS = 20_000;
const MAXIMUM_PAGES_OF_ORDER = 20;

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
