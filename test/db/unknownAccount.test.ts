import { hash } from "node:crypto";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { hasExpiredEvents, readFeedPage } from "../../db/events/feed.ts";
import { findUnfinishedMeterEvent } from "../../db/billing/meterEvents.ts";
import { findFailedSeconds, findPendingSeconds } from "../../db/billing/usageSpans.ts";
import {
  listDonationsByIds,
  listDonationsByKeys,
  listKnownDonationKeys,
} from "../../db/charities/donationBatches.ts";
import {
  findDonationByKey,
  findOwnDonation,
  listDonations,
  lockDonation,
} from "../../db/charities/donations.ts";
import {
  markImportedDonationsRefunded,
  raiseRefundedCounts,
} from "../../db/history/furtherRefunds.ts";
import { listOrderRecords } from "../../db/dashboard/certificates.ts";
import { listOwnedIds, listRecordIds } from "../../db/ownedRecords.ts";
import { insertPlantingOrder } from "../../db/planting/orders.ts";
import { findEvidenceTree } from "../../db/planting/treeEvidence.ts";
import { openPool } from "../../db/pool.ts";
import { listRefundable } from "../../db/registrations/refundableRegistrations.ts";
import { findListPosition } from "../../db/registrations/registrationPages.ts";
import { readShortPage } from "../../db/registrations/shortPages.ts";
import {
  findByIdempotencyKey,
  findOwnRegistration,
  listByIdempotencyKeys,
  listKnownKeys,
  listRegistrationsByIds,
  lockRegistration,
} from "../../db/registrations/registrations.ts";
import {
  findRegistrationUsage,
  listRegistrationUsage,
} from "../../db/registrations/registrationUsage.ts";
import {
  findMatchingTreeId,
  listStoreRegistrations,
  lockReversible,
  sumStoreRegistrations,
} from "../../db/registrations/storeRegistrations.ts";
import { sql } from "../../db/sql.ts";
import { findBalanceEntryByReference, listBalanceEntries } from "../../db/stores/balances.ts";
import {
  blankSelectedDonations,
  blankSelectedRegistrations,
  countSelectedRecords,
  readIdentities,
} from "../../db/stores/personalData.ts";
import {
  listPersonalDonations,
  listPersonalRegistrations,
} from "../../db/stores/personalRecords.ts";
import { listStoreDonations, sumStoreDonations } from "../../db/stores/storeDonations.ts";
import { EVENT_TYPES } from "../../domain/events/events.ts";
import { createPageCounter, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase();

const TABLES = [
  "registration",
  "donation",
  "usage_fact",
  "meter_event",
  "balance_entry",
  "balance_note",
  "refund",
  "idempotent_response",
];
/** The listing of so many registrations has 170 pages, and they themselves have 600. */
const RECORDS = 20_000;
const MAXIMUM_PAGES = 100;
/** Writes read the pages of many indexes. */
const MAXIMUM_PAGES_OF_WRITE = 300;

/** Inserts records, of which each has its own values. */
const insertRecords = async (filler: DatabasePool, accountId: string): Promise<void> => {
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
  const numbers = sql.fragment`generate_series(1, ${RECORDS}::integer) AS number`;
  // In many transactions, because a page of the feed reads all of its last one.
  for (let first = 1; first <= RECORDS; first += 200) {
    await filler.query(sql.typeAlias("void")`
      INSERT INTO registration (${columns}, kind, count, usage_batch, unit_price_cents)
      SELECT ${values}, 'tree', 1, nextval('usage_batch'), CASE WHEN number % 2 = 0 THEN 50 END
      FROM generate_series(${first}::integer, ${first + 199}::integer) AS number
    `);
  }
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donation (${columns}, amount_cents, nonprofit_id, charity_provider, charity_name)
    SELECT ${values}, 100, 'charity', 'catalogue', 'Charity' FROM ${numbers}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (account_id, mode, meter, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
    SELECT
      account_id, mode, kind, extract(epoch FROM created_at)::bigint, 1, 1, id::text, 'ledger', 'delivered', now(), now()
    FROM registration
    WHERE account_id = ${accountId}
  `);
  // Half of them are sealed.
  await filler.query(sql.typeAlias("void")`
    INSERT INTO usage_fact (account_id, mode, meter, usage_batch, quantity, second, meter_event_id)
    SELECT
      meter_event.account_id, meter_event.mode, meter, usage_batch, 1, second,
      CASE WHEN second % 2 = 0 THEN meter_event.id END
    FROM meter_event
    JOIN registration ON registration.id = meter_event.identifier::uuid
    WHERE meter_event.account_id = ${accountId}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO balance_entry (account_id, kind, amount_cents, balance_cents, reference, created_at)
    SELECT ${accountId}, 'topup', 1, number, 'invoice-' || number, now() FROM ${numbers}
  `);
  await filler.query(sql.typeAlias("void")`
    WITH refunded AS (
      SELECT * FROM registration WHERE account_id = ${accountId} AND imported_id IS DISTINCT FROM 'old-2'
    ),
    new_refund AS (
      INSERT INTO refund (id, registration_id, account_id, count, reason, created_at, dispatched_at)
      SELECT gen_random_uuid(), id, account_id, 1, 'reason', created_at, created_at FROM refunded
    ),
    new_entry AS (
      INSERT INTO balance_entry (account_id, kind, amount_cents, balance_cents, created_at)
      SELECT account_id, 'refund', 1, 1, created_at FROM refunded
      RETURNING id
    ),
    new_note AS (
      INSERT INTO balance_note (entry_id, note)
      SELECT id, 'reason' FROM new_entry
    )
    INSERT INTO idempotent_response (
      account_id, mode, operation, key_hash, request_hash, response_body, record_id, created_at
    )
    SELECT account_id, mode, 'plant', sha256(id::text::bytea), sha256(id::text::bytea), '{}', id, created_at
    FROM refunded
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT ${accountId}, 'live', 'tree', period, ${RECORDS}
    FROM unnest(ARRAY['all', '2026-10', '2026-11']) AS period
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donation_total (account_id, mode, period, count, amount_cents)
    SELECT ${accountId}, 'live', period, ${RECORDS}, 100 * ${RECORDS}::bigint
    FROM unnest(ARRAY['all', '2026-10', '2026-11']) AS period
  `);
};

const positionRow = z.strictObject({ transactionId: z.string().transform(BigInt), id: z.uuid() });

test("a look-up reads a few pages of an account that the statistics do not know", async (t) => {
  const filler = await openPool(t.context.ownerUrl, 1);
  const db = await openPool(t.context.databaseUrl, 1);
  t.teardown(() => Promise.all([filler.end(), db.end()]));
  const [known, unknown] = [await createTestOrganization(db), await createTestOrganization(db)];
  await stopAutovacuum(filler, TABLES);
  await insertRecords(filler, known.id);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  await insertRecords(filler, unknown.id);

  const donor = { accountId: unknown.id, mode: "live" } as const;
  const trees = { ...donor, kind: "tree" } as const;
  const stream = { ...donor, meter: "tree" } as const;
  const [registrationId = ""] = await listRecordIds(db, "registration", "old-10000", unknown.id);
  const [donationId = ""] = await listRecordIds(db, "donation", "old-10000", unknown.id);
  const [importedRegistrationId = ""] = await listRecordIds(
    db,
    "registration",
    "old-2",
    unknown.id,
  );
  const [importedDonationId = ""] = await listRecordIds(db, "donation", "old-2", unknown.id);
  const keys = ["key-10000", "key-3", "key-20001"];
  const emails = ["10000@example.com"];
  const customer = { ids: ["customer-10000"], emails, orderIds: ["10000"] };
  // One record has only a name.
  const names = Array.from({ length: 500 }, (_, index) => hash("md5", String(index)));
  const orderId = "#10000";
  const page = { after: null, limit: 20 };
  const shortPage = {
    after: null,
    limits: { rows: 21, bytes: 1_000_000 },
    separator: ",",
    now: new Date(),
  } as const;
  const [rangeStart, rangeEnd] = [
    new Date("2026-10-31T20:00:00Z"),
    new Date("2026-10-31T21:00:00Z"),
  ];
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
    WHERE account_id = ${unknown.id} AND usage_batch IS NOT NULL
    ORDER BY transaction_id, id
  `);
  const middle = positions[positions.length / 2] ?? null;
  const newest = positions.at(-1) ?? null;
  const order = {
    ...donor,
    publicId: "order",
    partner: "simulated",
    partnerName: "Partner",
    buyerName: "Buyer",
    timeline: "allocations",
    createdAt: new Date(),
  } as const;
  const anyTree = { id: null, upTo: null, projectPublicId: null, region: null };
  const lookups: Readonly<Record<string, (db: DatabasePool) => Promise<unknown>>> = {
    "a registration by key": (single) =>
      findByIdempotencyKey(single, trees, "key-10000", new Date()),
    "a short page": (single) => readShortPage(single, trees, {}, shortPage),
    "a short page of an attribution": (single) =>
      readShortPage(single, trees, { attribution: "campaign-10000" }, shortPage),
    "a short page of a range": (single) =>
      readShortPage(single, trees, { from: rangeStart, until: rangeEnd }, shortPage),
    "a registration of the list": (single) =>
      readShortPage(single, trees, { id: registrationId }, shortPage),
    "a registration of the list, by its imported id": (single) =>
      readShortPage(single, trees, { id: "old-10000" }, shortPage),
    "keys of registrations": (single) => listKnownKeys(single, trees, keys),
    "registrations by keys": (single) => listByIdempotencyKeys(single, trees, keys),
    "registrations by ids": (single) => listRegistrationsByIds(single, trees, [registrationId]),
    "a registration": (single) => findOwnRegistration(single, trees, registrationId),
    "an imported registration": (single) => findOwnRegistration(single, trees, "old-10000"),
    "a locked registration": (single) =>
      single.transaction((transaction) => lockRegistration(transaction, trees, registrationId)),
    "a registration's id": (single) =>
      listRecordIds(single, "registration", registrationId, unknown.id),
    "an imported registration's id": (single) =>
      listRecordIds(single, "registration", "old-10000", unknown.id),
    "ids of registrations": (single) =>
      listOwnedIds(single, "registration", trees, [registrationId, "old-4"]),
    "a position": (single) => findListPosition(single, trees, registrationId),
    "a registration's usage": (single) => findRegistrationUsage(single, trees, registrationId),
    "a tree's evidence": (single) =>
      findEvidenceTree(single, donor, registrationId, "https://example.com", new Date()),
    "refundable registrations of a campaign": (single) =>
      listRefundable(
        single,
        { ...donor, attribution: "campaign-10000", from: null, until: null },
        "tree",
        page,
      ),
    "the newest of a store": (single) => listStoreRegistrations(single, trees, {}, page),
    "a store's registration": (single) =>
      listStoreRegistrations(single, trees, { registrationId }, page),
    "a store's, by email": (single) => listStoreRegistrations(single, trees, { emails }, page),
    "a store's, by customer": (single) =>
      listStoreRegistrations(single, trees, { id: "customer-10000" }, page),
    "a store's, by order": (single) => listStoreRegistrations(single, trees, { orderId }, page),
    "the sum of an order": (single) => sumStoreRegistrations(single, trees, { orderId }),
    "the newest to reverse": (single) =>
      single.transaction((transaction) => lockReversible(transaction, trees, {}, page)),
    "those of an order to reverse": (single) =>
      single.transaction((transaction) => lockReversible(transaction, trees, { orderId }, page)),
    "those of a customer to reverse": (single) =>
      single.transaction((transaction) => lockReversible(transaction, trees, { emails }, page)),
    "the newest tree": (single) => findMatchingTreeId(single, donor, anyTree),
    "a store's tree": (single) =>
      findMatchingTreeId(single, donor, { ...anyTree, id: registrationId }),
    "a donation by key": (single) => findDonationByKey(single, donor, "key-10000"),
    "keys of donations": (single) => listKnownDonationKeys(single, donor, keys),
    "donations by keys": (single) => listDonationsByKeys(single, donor, keys),
    "donations by ids": (single) => listDonationsByIds(single, donor, [donationId]),
    "a donation": (single) => findOwnDonation(single, donor, donationId),
    "an imported donation": (single) => findOwnDonation(single, donor, "old-10000"),
    "a locked donation": (single) =>
      single.transaction((transaction) => lockDonation(transaction, donor, donationId)),
    "a donation's id": (single) => listRecordIds(single, "donation", donationId, unknown.id),
    "ids of donations": (single) => listOwnedIds(single, "donation", donor, [donationId, "old-4"]),
    "donations of a campaign": (single) =>
      listDonations(single, donor, { attribution: "campaign-10000" }, { offset: 0, limit: 20 }),
    "a store's donations, by email": (single) =>
      listStoreDonations(single, donor, { emails }, page),
    "the sum of an order's donations": (single) => sumStoreDonations(single, donor, { orderId }),
    "the records of an order": (single) => listOrderRecords(single, donor, orderId, 20),
    "an unfinished meter event": (single) =>
      single.transaction((transaction) => findUnfinishedMeterEvent(transaction, stream)),
    "the seconds with usage to report": (single) => findPendingSeconds(single, stream),
    "the seconds with failed usage": (single) => findFailedSeconds(single, stream),
    "the first events": (single) => readFeedPage(single, firstEvents),
    "the events after one": (single) => readFeedPage(single, { ...firstEvents, after: middle }),
    "the events after the newest": (single) =>
      readFeedPage(single, { ...firstEvents, after: newest }),
    "expired events": (single) => hasExpiredEvents(single, firstEvents),
    "the last usage": (single) =>
      listRegistrationUsage(single, trees, { from: null, until: null, after: null, limit: 5 }),
    "the oldest tree in no order": (single) =>
      single.transaction((transaction) => insertPlantingOrder(transaction, order, 1)),
    "a customer's registrations": (single) =>
      listPersonalRegistrations(single, unknown.id, customer, 20),
    "a customer's donations": (single) => listPersonalDonations(single, unknown.id, customer, 20),
    "how many records a customer has": (single) =>
      countSelectedRecords(single, unknown.id, customer),
    "how many records have only a name": (single) =>
      countSelectedRecords(single, unknown.id, { names }),
    "what is known of a customer": (single) => readIdentities(single, unknown.id, customer),
    "a balance entry by reference": (single) =>
      findBalanceEntryByReference(single, unknown.id, "invoice-10000"),
    "the last balance entries": (single) =>
      listBalanceEntries(single, unknown.id, { before: null, limit: 20 }),
  };
  // Each returns how many records it has changed.
  const writes: Readonly<Record<string, (db: DatabasePool) => Promise<number>>> = {
    "refunds of imported registrations": (single) =>
      single.transaction(async (transaction) => {
        const refunds = [{ id: importedRegistrationId, refundedCount: 1 }];
        return (await raiseRefundedCounts(transaction, donor, refunds)).length;
      }),
    "refunds of imported donations": (single) =>
      single.transaction(async (transaction) => {
        const refunds = [{ id: importedDonationId, refundedAt: new Date() }];
        return (await markImportedDonationsRefunded(transaction, donor, refunds)).length;
      }),
    "the erasure of a customer's registrations": (single) =>
      single.transaction((transaction) =>
        blankSelectedRegistrations(transaction, unknown.id, customer, 500),
      ),
    "the erasure of registrations with only a name": (single) =>
      single.transaction((transaction) =>
        blankSelectedRegistrations(transaction, unknown.id, { names }, 500),
      ),
    "the erasure of donations with only a name": (single) =>
      single.transaction((transaction) =>
        blankSelectedDonations(transaction, unknown.id, { names }, 500),
      ),
    "the erasure of a customer's donations": (single) =>
      single.transaction((transaction) =>
        blankSelectedDonations(transaction, unknown.id, customer, 500),
      ),
  };
  const countPages = await createPageCounter(filler, db, TABLES);
  for (const [name, lookup] of Object.entries(lookups)) {
    const pages = await countPages(lookup);
    t.true(pages > 0 && pages <= MAXIMUM_PAGES, `${name}: ${pages} pages`);
  }
  for (const [name, write] of Object.entries(writes)) {
    let changed = 0;
    const pages = await countPages(async (single) => {
      changed = await write(single);
    });
    t.is(changed, 1, name);
    t.true(pages > 0 && pages <= MAXIMUM_PAGES_OF_WRITE, `${name}: ${pages} pages`);
  }
});
