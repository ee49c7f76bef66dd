import { hash } from "node:crypto";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { readFeedPage } from "../../modules/feed/feed.sql.ts";
import { listNextEvents } from "../../modules/billing/sending/waitingStreams.sql.ts";
import { lockDonations } from "../../modules/charities/donationBatches.sql.ts";
import { readDonor } from "../../modules/charities/donationSubscriptions.sql.ts";
import {
  findOwnDonation,
  listDonations,
  listDonationsOf,
} from "../../modules/charities/donations.sql.ts";
import {
  markImportedDonationsRefunded,
  listFurtherRefunded,
  raiseRefundedCounts,
} from "../../modules/history/furtherRefunds.sql.ts";
import { listRecordIds } from "../../modules/records/ownedRecords.sql.ts";
import { listEvidenceTrees } from "../../modules/planting/treeEvidence.sql.ts";
import { lockRegistrations } from "../../modules/registrations/refunds.sql.ts";
import { findListPosition, readPage } from "../../modules/registrations/registrationPages.sql.ts";
import {
  findOwnRegistration,
  listByIdempotencyKeys,
  listKnownKeys,
  listRegistrationsByIds,
} from "../../modules/registrations/registrations.sql.ts";
import {
  findRegistrationUsage,
  listRegistrationUsage,
} from "../../modules/registrations/registrationUsage.sql.ts";
import {
  listNewestUnits,
  listPersonalRecords,
  listStoreRecords,
  sumStoreRecords,
} from "../../modules/stores/storeRecords.sql.ts";
import { findMatchingTreeId } from "../../modules/stores/storeTrees.sql.ts";
import { sql } from "../../db/sql.ts";
import {
  findBalanceEntryByReference,
  listBalanceEntries,
} from "../../modules/stores/balances.sql.ts";
import {
  blankPage,
  countPersonalRecords,
  listUnsharedEmails,
  readIdentities,
  recordsOf,
} from "../../modules/stores/personalData.sql.ts";
import { EVENT_TYPES } from "../../modules/events/events.rules.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../support/countPages.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
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

const positionRow = z.strictObject({ transactionId: z.string().transform(BigInt), id: z.uuid() });

test("a look-up reads a few pages of an account that the statistics do not know", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const [known, unknown] = [await createTestOrganization(db), await createTestOrganization(db)];
  await stopAutovacuum(filler, TABLES);
  await insertRecords(filler, known.id);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  await insertRecords(filler, unknown.id);

  const donor = { accountId: unknown.id, mode: "live" } as const;
  const trees = { ...donor, kind: "tree" } as const;
  const stream = { ...donor, kind: "tree" } as const;
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
  const named = { identity: customer, names };
  const unnamed = { identity: customer, names: [] };
  const orderId = "#10000";
  const page = { after: null, limit: 20 };
  const firstPage = {
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
  const anyTree = { id: null, until: null, projectPublicId: null, region: null };
  const lookups: Readonly<Record<string, (db: DatabasePool) => Promise<unknown>>> = {
    "a page": (single) => readPage(single, trees, {}, firstPage),
    "a page of an attribution": (single) =>
      readPage(single, trees, { attribution: "campaign-10000" }, firstPage),
    "a page of a range": (single) =>
      readPage(single, trees, { from: rangeStart, until: rangeEnd }, firstPage),
    "a registration of the list": (single) =>
      readPage(single, trees, { id: registrationId }, firstPage),
    "a registration of the list, by its imported id": (single) =>
      readPage(single, trees, { id: "old-10000" }, firstPage),
    "keys of registrations": (single) => listKnownKeys(single, trees, keys),
    "registrations by keys": (single) => listByIdempotencyKeys(single, trees, keys),
    "registrations by ids": (single) => listRegistrationsByIds(single, trees, [registrationId]),
    "a registration": (single) => findOwnRegistration(single, trees, registrationId),
    "an imported registration": (single) => findOwnRegistration(single, trees, "old-10000"),
    "registrations to refund": (single) =>
      single.transaction((transaction) =>
        lockRegistrations(transaction, [
          { ...trees, id: registrationId },
          { ...trees, id: "old-10000" },
        ]),
      ),
    "a registration's id": (single) =>
      listRecordIds(single, "registration", registrationId, unknown.id),
    "an imported registration's id": (single) =>
      listRecordIds(single, "registration", "old-10000", unknown.id),
    "a position": (single) => findListPosition(single, trees, registrationId),
    "a registration's usage": (single) => findRegistrationUsage(single, trees, registrationId),
    "a tree's evidence": (single) => listEvidenceTrees(single, [{ ...donor, id: registrationId }]),
    "the newest of a store": (single) => listStoreRecords(single, "registration", trees, {}, page),
    "a store's, by email": (single) =>
      listStoreRecords(single, "registration", trees, { emails }, page),
    "a store's, by customer": (single) =>
      listStoreRecords(single, "registration", trees, { id: "customer-10000" }, page),
    "a store's, by order": (single) =>
      listStoreRecords(single, "registration", trees, { orderId }, page),
    "the sum of an order": (single) => sumStoreRecords(single, "registration", trees, { orderId }),
    "the newest to reverse": (single) => listNewestUnits(single, trees, {}, 20),
    "those of an order to reverse": (single) => listNewestUnits(single, trees, { orderId }, 20),
    "those of a customer to reverse": (single) => listNewestUnits(single, trees, { emails }, 20),
    "the newest tree": (single) => findMatchingTreeId(single, donor, anyTree),
    "a store's tree": (single) =>
      findMatchingTreeId(single, donor, { ...anyTree, id: registrationId }),
    "a donor and known keys": (single) => readDonor(single, donor, keys),
    "donations by ids and keys": (single) =>
      listDonationsOf(single, donor, { ids: [donationId], keys }),
    "a donation": (single) => findOwnDonation(single, donor, donationId),
    "an imported donation": (single) => findOwnDonation(single, donor, "old-10000"),
    "locked donations": (single) =>
      single.transaction((transaction) => lockDonations(transaction, donor, [donationId, "old-4"])),
    "a donation's id": (single) => listRecordIds(single, "donation", donationId, unknown.id),
    "donations of a campaign": (single) =>
      listDonations(single, donor, { attribution: "campaign-10000" }, { offset: 0, limit: 20 }),
    "a store's donations, by email": (single) =>
      listStoreRecords(single, "donation", donor, { emails }, page),
    "the sum of an order's donations": (single) =>
      sumStoreRecords(single, "donation", donor, { orderId }),
    "a store's donations, by order": (single) =>
      listStoreRecords(single, "donation", donor, { orderId }, page),
    "the next meter event": (single) => listNextEvents(single, [stream], new Date()),
    "the first events": (single) => readFeedPage(single, firstEvents),
    "the events after one": (single) => readFeedPage(single, { ...firstEvents, after: middle }),
    "the events after the newest": (single) =>
      readFeedPage(single, { ...firstEvents, after: newest }),
    "the last usage": (single) => listRegistrationUsage(single, trees, [registrationId]),
    "a customer's registrations": (single) =>
      listPersonalRecords(single, "registration", unknown.id, unnamed, 20),
    "a customer's registrations, with those that have only a name": (single) =>
      listPersonalRecords(single, "registration", unknown.id, named, 20),
    "a customer's donations": (single) =>
      listPersonalRecords(single, "donation", unknown.id, unnamed, 20),
    "how many records a customer has": (single) =>
      countPersonalRecords(single, unknown.id, unnamed),
    "what is known of a customer": (single) => readIdentities(single, unknown.id, customer),
    "the addresses that only a customer has": (single) =>
      listUnsharedEmails(single, unknown.id, customer, 10_000),
    "a balance entry by reference": (single) =>
      findBalanceEntryByReference(single, unknown.id, "invoice-10000"),
    "the last balance entries": (single) => listBalanceEntries(single, unknown.id, page),
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
    ...Object.fromEntries(
      // Those with only a name come first.
      recordsOf(unknown.id, named).map((selection, index) => [
        `the erasure of a ${selection.table}, ${index}`,
        (single: DatabasePool) =>
          single.transaction(
            async (transaction) =>
              (await blankPage(transaction, unknown.id, selection, null)).blanked,
          ),
      ]),
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
