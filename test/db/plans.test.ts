import { hash } from "node:crypto";
import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { listNextEvents } from "../../modules/billing/sending/waitingStreams.sql.ts";
import { lockDonations } from "../../modules/charities/donationBatches.sql.ts";
import { readDonor } from "../../modules/charities/donationSubscriptions.sql.ts";
import {
  findOwnDonation,
  listDonations,
  listDonationsOf,
} from "../../modules/charities/donations.sql.ts";
import { listOrderRecords } from "../../modules/dashboard/certificates.sql.ts";
import { EVENT_TYPES } from "../../modules/events/events.rules.ts";
import { readFeedPage } from "../../modules/feed/feed.sql.ts";
import { lockRecords, raiseRefunds } from "../../modules/history/furtherRefunds.sql.ts";
import { listEvidenceTrees } from "../../modules/planting/treeEvidence.sql.ts";
import { listRecordIds } from "../../modules/records/ownedRecords.sql.ts";
import { insertRefunds, lockRegistrations } from "../../modules/registrations/refunds.sql.ts";
import { findListPosition, readPage } from "../../modules/registrations/registrationPages.sql.ts";
import {
  findRegistrationUsage,
  listRegistrationUsage,
} from "../../modules/registrations/registrationUsage.sql.ts";
import {
  findOwnRegistration,
  listByIdempotencyKeys,
  listKnownKeys,
  listRegistrationsByIds,
  insertRegistrations,
} from "../../modules/registrations/registrations.sql.ts";
import {
  findBalanceEntryByReference,
  listBalanceEntries,
} from "../../modules/stores/balances.sql.ts";
import { hasOnlyName, isOfCustomer } from "../../modules/stores/customers.sql.ts";
import {
  listUnsharedEmails,
  readIdentities,
  blankPage,
} from "../../modules/stores/personalData.sql.ts";
import {
  listNewestUnits,
  listPersonalRecords,
  listStoreRecords,
  sumStoreRecords,
} from "../../modules/stores/storeRecords.sql.ts";
import type { RefundFilter } from "../../modules/stores/customers.rules.ts";
import { findMatchingTreeId } from "../../modules/stores/storeTrees.sql.ts";
import { openPageCount } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { insertTestKeys } from "../support/insertTestKeys.ts";
import { eventually } from "../support/programs.ts";

/** The listing of so many registrations has 170 pages, and they themselves have 600. */
const RECORDS = 20_000;

/** Inserts many records of an account, of which each has its own values. */
const insertRecords = async (
  filler: DatabasePool,
  accountId: string,
  { from = 1, to = RECORDS } = {},
): Promise<void> => {
  const isNew = sql.fragment`
    account_id = ${accountId} AND created_at BETWEEN '2026-11-01'::timestamptz - ${to} * interval '1 second'
      AND '2026-11-01'::timestamptz - ${from} * interval '1 second'
  `;
  const columns = sql.fragment`
    id, account_id, mode, created_at, idempotency_key, attribution, imported_id, customer_name, customer_email,
    customer_id, order_id
  `;
  const values = sql.fragment`
    -- As of imported records, whose ids have version 8.
    overlay(gen_random_uuid()::text PLACING '8' FROM 15)::uuid, ${accountId}, 'live', '2026-11-01'::timestamptz - number * interval '1 second', 'key-' || number, 'campaign-' || number,
    CASE WHEN number % 2 = 0 THEN 'old-' || number END, md5(number::text), CASE WHEN number > 1 THEN number || '@example.com' END,
    CASE WHEN number > 1 THEN 'customer-' || number END, '#' || number
  `;
  const numbers = sql.fragment`generate_series(${from}::integer, ${to}::integer) AS number`;
  // In many transactions, because a page of the feed reads all of its last one.
  for (let first = from; first <= to; first += 200) {
    await filler.query(sql.typeAlias("void")`
      INSERT INTO registration (${columns}, kind, count, usage_batch, unit_price_cents)
      SELECT ${values}, 'tree', 1, nextval('usage_batch'), CASE WHEN number % 2 = 0 THEN 50 END
      FROM generate_series(${first}::integer, ${Math.min(first + 199, to)}::integer) AS number
    `);
  }
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donation (${columns}, amount_cents, nonprofit_id, charity_provider, charity_name)
    SELECT ${values}, 100, 'charity', 'catalogue', 'Charity' FROM ${numbers}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
    SELECT
      account_id, mode, kind, extract(epoch FROM created_at)::bigint, 1, 1, id::text, 'ledger', 'delivered', now(), now()
    FROM registration
    WHERE ${isNew}
  `);
  // Half of them are sealed.
  await filler.query(sql.typeAlias("void")`
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second, meter_event_id)
    SELECT
      meter_event.account_id, meter_event.mode, meter_event.kind, usage_batch, 1, second,
      CASE WHEN second % 2 = 0 THEN meter_event.id END
    FROM meter_event
    JOIN (SELECT * FROM registration WHERE ${isNew}) AS registration ON registration.id = meter_event.identifier::uuid
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO balance_entry (account_id, kind, amount_cents, balance_cents, reference, created_at)
    SELECT ${accountId}, 'topup', 1, number, 'invoice-' || number, now() FROM ${numbers}
  `);
  await filler.query(sql.typeAlias("void")`
    WITH refunded AS (
      SELECT * FROM registration WHERE ${isNew} AND imported_id IS DISTINCT FROM 'old-2'
    ),
    new_refund AS (
      INSERT INTO refund (id, registration_id, account_id, count, reason, created_at, dispatched_at)
      SELECT gen_random_uuid(), id, account_id, 1, 'reason', created_at, created_at FROM refunded
    ),
    new_entry AS (
      INSERT INTO balance_entry (account_id, kind, amount_cents, balance_cents, created_at)
      SELECT account_id, 'refund', 1, 1, created_at FROM refunded
    )
    INSERT INTO idempotency_key (
      key_hash, account_id, mode, operation, request_hash, response_body, record_id, created_at
    )
    SELECT sha256(id::text::bytea), account_id, mode, 'refund', sha256(id::text::bytea), '{}', id, created_at
    FROM refunded
  `);
  for (const [table, operation] of [
    ["registration", "plant"],
    ["donation", "donate"],
  ] as const) {
    await insertTestKeys(filler, table, operation, accountId);
  }
  await filler.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT ${accountId}, 'live', 'tree', period, ${RECORDS}
    FROM unnest(ARRAY['all', '2026-10', '2026-11']) AS period
    ON CONFLICT DO NOTHING
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, count, amount_cents)
    VALUES (${accountId}, 'live', ${RECORDS}, 100 * ${RECORDS}::bigint)
    ON CONFLICT DO NOTHING
  `);
};

const ROLLED_BACK = new Error("The transaction is rolled back.");

const runAndRollBack = async (
  db: DatabasePool,
  work: (transaction: DatabaseTransactionConnection) => Promise<unknown>,
): Promise<void> => {
  try {
    await db.transaction(async (transaction) => {
      await work(transaction);
      throw ROLLED_BACK;
    });
  } catch (error) {
    if (error !== ROLLED_BACK) {
      throw error;
    }
  }
};

const positionRow = z.strictObject({ transactionId: z.string().transform(BigInt), id: z.uuid() });

/** One record has only a name. */
const NAMES = Array.from({ length: 500 }, (_, index) => hash("md5", String(index)));

/** Returns look-ups of an account's records, most of them of the one with this number, which is even. */
const describeLookups = async (
  db: DatabasePool,
  accountId: string,
  number: number,
): Promise<Readonly<Record<string, () => Promise<unknown>>>> => {
  const donor = { accountId, mode: "live" } as const;
  const trees = { ...donor, kind: "tree" } as const;
  const importedId = `old-${number}`;
  const [registrationId = ""] = await listRecordIds(db, "registration", importedId, accountId);
  const [donationId = ""] = await listRecordIds(db, "donation", importedId, accountId);
  const keys = [`key-${number}`, "key-3", "key-20001"];
  const email = `${number}@example.com`;
  const customer = { ids: [`customer-${number}`], emails: [email], orderIds: [String(number)] };
  const named = { ...customer, names: NAMES };
  const unnamed = { ...customer, names: [] };
  const orderId = `#${number}`;
  const page = { after: null, limit: 20 };
  const limits = { rows: 21, bytes: 1_000_000 };
  const firstPage = { after: null, limits, now: new Date() };
  const [from, until] = [new Date("2026-10-31T20:00:00Z"), new Date("2026-10-31T21:00:00Z")];
  const firstEvents = {
    owner: donor,
    types: EVENT_TYPES,
    after: null,
    keptSince: new Date("2026-11-01T00:00:00.000Z"),
    limits: { events: 20, bytes: 1_000_000 },
  } as const;
  const positions = await db.any(sql.type(positionRow)`
    SELECT transaction_id::text AS "transactionId", id
    FROM registration
    WHERE account_id = ${accountId} AND usage_batch IS NOT NULL
    ORDER BY transaction_id, id
  `);
  const middle = positions[positions.length / 2] ?? null;
  const newest = positions.at(-1) ?? null;
  const newRefund = () => ({
    ...trees,
    id: crypto.randomUUID(),
    registrationId,
    count: 1,
    reason: null,
    idempotencyKey: crypto.randomUUID(),
    createdAt: new Date().toISOString(),
  });
  const toReverse = (filter: RefundFilter) =>
    ({ ...donor, refunded: "tree", quantity: 20, filter }) as const;
  const anyTree = { id: null, until: null, projectPublicId: null, region: null };
  return {
    "a page": () => readPage(db, trees, {}, firstPage),
    "a page of an attribution": () =>
      readPage(db, trees, { attribution: `campaign-${number}` }, firstPage),
    "a page of a range": () => readPage(db, trees, { from, until }, firstPage),
    "a registration of the list": () => readPage(db, trees, { id: registrationId }, firstPage),
    "a registration of the list, by its imported id": () =>
      readPage(db, trees, { id: importedId }, firstPage),
    "keys of registrations": () =>
      listKnownKeys(
        db,
        keys.map((idempotencyKey) => ({ ...trees, idempotencyKey })),
      ),
    "registrations by keys": () => listByIdempotencyKeys(db, trees, keys),
    "registrations by ids": () => listRegistrationsByIds(db, [registrationId]),
    "a registration": () => findOwnRegistration(db, trees, registrationId),
    "an imported registration": () => findOwnRegistration(db, trees, importedId),
    "registrations to refund": () =>
      db.transaction((transaction) =>
        lockRegistrations(transaction, [
          { ...trees, id: registrationId },
          { ...trees, id: importedId },
        ]),
      ),
    "a refund": () =>
      runAndRollBack(db, (transaction) =>
        insertRefunds(transaction, [newRefund()], false, [], new Date()),
      ),
    "a registration's id": () => listRecordIds(db, "registration", registrationId, accountId),
    "an imported registration's id": () => listRecordIds(db, "registration", importedId, accountId),
    "a position": () => findListPosition(db, trees, registrationId),
    "a registration's usage": () => findRegistrationUsage(db, trees, registrationId),
    "a tree's evidence": () => listEvidenceTrees(db, [{ ...donor, id: registrationId }]),
    "the newest of a store": () => listStoreRecords(db, "registration", trees, {}, page),
    "a store's, by email": () => listStoreRecords(db, "registration", trees, { email }, page),
    "a store's, by customer": () =>
      listStoreRecords(db, "registration", trees, { id: `customer-${number}` }, page),
    "a store's, by order": () => listStoreRecords(db, "registration", trees, { orderId }, page),
    "the sum of an order": () => sumStoreRecords(db, "registration", trees, { orderId }),
    "the newest to reverse": () => listNewestUnits(db, [toReverse({})]),
    "those of an order to reverse": () => listNewestUnits(db, [toReverse({ orderId })]),
    "those of a customer to reverse": () => listNewestUnits(db, [toReverse({ email })]),
    "the newest tree": () => findMatchingTreeId(db, donor, anyTree),
    "a store's tree": () => findMatchingTreeId(db, donor, { ...anyTree, id: registrationId }),
    "a donor and known keys": () => readDonor(db, donor, keys),
    "donations by ids and keys": () => listDonationsOf(db, donor, { ids: [donationId], keys }),
    "a donation": () => findOwnDonation(db, donor, donationId),
    "an imported donation": () => findOwnDonation(db, donor, importedId),
    "locked donations": () =>
      db.transaction((transaction) => lockDonations(transaction, donor, [donationId, "old-4"])),
    "a donation's id": () => listRecordIds(db, "donation", donationId, accountId),
    "donations of a campaign": () =>
      listDonations(db, donor, { attribution: `campaign-${number}` }, { offset: 0, limit: 20 }),
    "a store's donations, by email": () => listStoreRecords(db, "donation", donor, { email }, page),
    "the sum of an order's donations": () => sumStoreRecords(db, "donation", donor, { orderId }),
    "the records of an order": () => listOrderRecords(db, donor, orderId),
    "a store's donations, by order": () =>
      listStoreRecords(db, "donation", donor, { orderId }, page),
    "the next meter event": () => listNextEvents(db, [trees], new Date()),
    "the first events": () => readFeedPage(db, firstEvents),
    "the events after one": () => readFeedPage(db, { ...firstEvents, after: middle }),
    "the events after the newest": () => readFeedPage(db, { ...firstEvents, after: newest }),
    "the last usage": () => listRegistrationUsage(db, trees, [registrationId]),
    "a customer's registrations": () =>
      listPersonalRecords(db, "registration", accountId, unnamed, 20),
    "a customer's registrations, with those that have only a name": () =>
      listPersonalRecords(db, "registration", accountId, named, 20),
    "a customer's donations": () => listPersonalRecords(db, "donation", accountId, unnamed, 20),
    "what is known of a customer": () => readIdentities(db, accountId, customer),
    "the addresses that only a customer has": () =>
      listUnsharedEmails(db, accountId, customer, 10_000),
    "a balance entry by reference": () =>
      findBalanceEntryByReference(db, accountId, `invoice-${number}`),
    "the last balance entries": () => listBalanceEntries(db, accountId, page),
  };
};

const test = testWithDatabase().serial;

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

const refundFurther = (db: DatabasePool, table: "registration" | "donation", id: string) =>
  db.transaction(async (transaction) => {
    await lockRecords(transaction, table, [id]);
    await raiseRefunds(transaction, table, [{ id, count: 1 }]);
    return 1;
  });

test("a look-up reads a few pages, whatever the statistics and the kept plans know of its account", async (t) => {
  // The plans are not made again because of new statistics.
  const { filler, db, countPages, vacuum, readAtMost } = await openPageCount(t, TABLES);
  const [known, unknown] = [await createTestOrganization(db), await createTestOrganization(db)];
  await insertRecords(filler, known.id, { to: FEW_RECORDS });
  await filler.query(sql.typeAlias("void")`ANALYZE`);
  // So that PostgreSQL keeps their plans, which read the few pages of the tables.
  for (const lookup of Object.values(await describeLookups(db, known.id, 2))) {
    for (let execution = 0; execution < EXECUTIONS; execution += 1) {
      await lookup();
    }
  }
  const planned = await db.anyFirst(sql.type(nameRow)`
    SELECT name FROM pg_prepared_statements WHERE generic_plans = 0
  `);
  t.deepEqual(planned, [], "statements that are planned each time");
  await insertRecords(filler, known.id, { from: FEW_RECORDS + 1 });
  const grown = await describeLookups(db, known.id, 10_000);
  for (const lookup of Object.values(grown)) {
    await eventually(async () => (await countPages(lookup)) <= MAXIMUM_PAGES);
  }

  await vacuum();
  await insertRecords(filler, unknown.id);
  const lookups = await describeLookups(db, unknown.id, 10_000);
  for (const [name, lookup] of Object.entries(lookups)) {
    await readAtMost(MAXIMUM_PAGES, lookup, name);
  }

  const idOf = async (table: "registration" | "donation") =>
    (await listRecordIds(db, table, "old-2", unknown.id))[0] ?? "";
  const [registrationId, donationId] = [await idOf("registration"), await idOf("donation")];
  const customer = { ids: ["customer-10000"], emails: ["10000@example.com"], orderIds: ["10000"] };
  const named = { ...customer, names: NAMES };
  const unnamed = { ...customer, names: [] };
  type Table = "registration" | "donation";
  const erase = (selects: typeof isOfCustomer, table: Table, who: typeof named) =>
    db.transaction(async (transaction) => {
      const selection = { table, pageAfter: () => selects(table, unknown.id, who) };
      return (await blankPage(transaction, unknown.id, selection, null)).blanked;
    });
  // Each returns how many records it has changed.
  const writes: Readonly<Record<string, () => Promise<number>>> = {
    "refunds of imported registrations": () => refundFurther(db, "registration", registrationId),
    "refunds of imported donations": () => refundFurther(db, "donation", donationId),
    "the erasure of a customer's registrations": () => erase(isOfCustomer, "registration", unnamed),
    "the erasure of registrations with only a name": () =>
      erase(hasOnlyName, "registration", named),
    "the erasure of donations with only a name": () => erase(hasOnlyName, "donation", named),
    "the erasure of a customer's donations": () => erase(isOfCustomer, "donation", unnamed),
  };
  for (const [name, write] of Object.entries(writes)) {
    t.is(await readAtMost(MAXIMUM_PAGES_OF_WRITE, write, name), 1, name);
  }
});

/** Their next orders have 160 pages. */
const ACCOUNTS = 20_000;
const MAXIMUM_PAGES_OF_ORDER = 20;

test("a plan that was made while no account had a next order is not kept when many do", async (t) => {
  const { filler, db, readAtMost } = await openPageCount(t, ["next_planting_order"]);
  const { id: accountId } = await createTestOrganization(filler);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO account (id, type, name, billing_day, created_at)
    SELECT gen_random_uuid(), 'organization', 'Account', 1, now() FROM generate_series(1, ${ACCOUNTS}::integer)
  `);
  const openOrders = () =>
    filler.query(sql.typeAlias("void")`
      INSERT INTO next_planting_order (account_id, mode) SELECT id, 'live' FROM account WHERE id <> ${accountId}
    `);
  const register = () => {
    const entry = { ...registrationOf(accountId), id: crypto.randomUUID() };
    return insertRegistrations(db, [entry], new Date());
  };
  await openOrders();
  await filler.query(sql.typeAlias("void")`SELECT FROM pg_stat_force_next_flush()`);
  // The table was as large before, so its growth renews no plan.
  await register();
  await filler.query(sql.typeAlias("void")`DELETE FROM next_planting_order`);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE) next_planting_order`);
  for (let execution = 0; execution < EXECUTIONS; execution += 1) {
    await register();
  }
  await openOrders();

  await readAtMost(MAXIMUM_PAGES_OF_ORDER, register);
});
