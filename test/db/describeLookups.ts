import { hash } from "node:crypto";
import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
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
import { listOrderRecords } from "../../modules/dashboard/certificates.sql.ts";
import { listRecordIds } from "../../modules/records/ownedRecords.sql.ts";
import { listEvidenceTrees } from "../../modules/planting/treeEvidence.sql.ts";
import { insertRefunds, lockRegistrations } from "../../modules/registrations/refunds.sql.ts";
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
import { listUnsharedEmails, readIdentities } from "../../modules/stores/personalData.sql.ts";
import { EVENT_TYPES } from "../../modules/events/events.rules.ts";

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
export const NAMES = Array.from({ length: 500 }, (_, index) => hash("md5", String(index)));

type Lookups = Readonly<Record<string, (db: DatabasePool) => Promise<unknown>>>;

/** Returns look-ups of an account's records, most of them of the one with this number, which is even. */
export const describeLookups = async (
  db: DatabasePool,
  accountId: string,
  number: number,
): Promise<Lookups> => {
  const donor = { accountId, mode: "live" } as const;
  const trees = { ...donor, kind: "tree" } as const;
  const stream = { ...donor, kind: "tree" } as const;
  const importedId = `old-${number}`;
  const [registrationId = ""] = await listRecordIds(db, "registration", importedId, accountId);
  const [donationId = ""] = await listRecordIds(db, "donation", importedId, accountId);
  const keys = [`key-${number}`, "key-3", "key-20001"];
  const emails = [`${number}@example.com`];
  const customer = { ids: [`customer-${number}`], emails, orderIds: [String(number)] };
  const named = { identity: customer, names: NAMES };
  const unnamed = { identity: customer, names: [] };
  const orderId = `#${number}`;
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
    registeredAt: new Date(),
    reason: null,
    idempotencyKey: crypto.randomUUID(),
    createdAt: new Date().toISOString(),
  });
  const anyTree = { id: null, until: null, projectPublicId: null, region: null };
  return {
    "a page": (single) => readPage(single, trees, {}, firstPage),
    "a page of an attribution": (single) =>
      readPage(single, trees, { attribution: `campaign-${number}` }, firstPage),
    "a page of a range": (single) =>
      readPage(single, trees, { from: rangeStart, until: rangeEnd }, firstPage),
    "a registration of the list": (single) =>
      readPage(single, trees, { id: registrationId }, firstPage),
    "a registration of the list, by its imported id": (single) =>
      readPage(single, trees, { id: importedId }, firstPage),
    "keys of registrations": (single) =>
      listKnownKeys(
        single,
        keys.map((idempotencyKey) => ({ ...trees, idempotencyKey })),
      ),
    "registrations by keys": (single) => listByIdempotencyKeys(single, trees, keys),
    "registrations by ids": (single) => listRegistrationsByIds(single, [registrationId]),
    "a registration": (single) => findOwnRegistration(single, trees, registrationId),
    "an imported registration": (single) => findOwnRegistration(single, trees, importedId),
    "registrations to refund": (single) =>
      single.transaction((transaction) =>
        lockRegistrations(transaction, [
          { ...trees, id: registrationId },
          { ...trees, id: importedId },
        ]),
      ),
    "a refund": (single) =>
      runAndRollBack(single, (transaction) =>
        insertRefunds(transaction, [newRefund()], false, [], new Date()),
      ),
    "a registration's id": (single) =>
      listRecordIds(single, "registration", registrationId, accountId),
    "an imported registration's id": (single) =>
      listRecordIds(single, "registration", importedId, accountId),
    "a position": (single) => findListPosition(single, trees, registrationId),
    "a registration's usage": (single) => findRegistrationUsage(single, trees, registrationId),
    "a tree's evidence": (single) => listEvidenceTrees(single, [{ ...donor, id: registrationId }]),
    "the newest of a store": (single) => listStoreRecords(single, "registration", trees, {}, page),
    "a store's, by email": (single) =>
      listStoreRecords(single, "registration", trees, { emails }, page),
    "a store's, by customer": (single) =>
      listStoreRecords(single, "registration", trees, { id: `customer-${number}` }, page),
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
    "an imported donation": (single) => findOwnDonation(single, donor, importedId),
    "locked donations": (single) =>
      single.transaction((transaction) => lockDonations(transaction, donor, [donationId, "old-4"])),
    "a donation's id": (single) => listRecordIds(single, "donation", donationId, accountId),
    "donations of a campaign": (single) =>
      listDonations(single, donor, { attribution: `campaign-${number}` }, { offset: 0, limit: 20 }),
    "a store's donations, by email": (single) =>
      listStoreRecords(single, "donation", donor, { emails }, page),
    "the sum of an order's donations": (single) =>
      sumStoreRecords(single, "donation", donor, { orderId }),
    "the records of an order": (single) => listOrderRecords(single, donor, orderId),
    "a store's donations, by order": (single) =>
      listStoreRecords(single, "donation", donor, { orderId }, page),
    "the next meter event": (single) => listNextEvents(single, [stream], new Date()),
    "the first events": (single) => readFeedPage(single, firstEvents),
    "the events after one": (single) => readFeedPage(single, { ...firstEvents, after: middle }),
    "the events after the newest": (single) =>
      readFeedPage(single, { ...firstEvents, after: newest }),
    "the last usage": (single) => listRegistrationUsage(single, trees, [registrationId]),
    "a customer's registrations": (single) =>
      listPersonalRecords(single, "registration", accountId, unnamed, 20),
    "a customer's registrations, with those that have only a name": (single) =>
      listPersonalRecords(single, "registration", accountId, named, 20),
    "a customer's donations": (single) =>
      listPersonalRecords(single, "donation", accountId, unnamed, 20),
    "what is known of a customer": (single) => readIdentities(single, accountId, customer),
    "the addresses that only a customer has": (single) =>
      listUnsharedEmails(single, accountId, customer, 10_000),
    "a balance entry by reference": (single) =>
      findBalanceEntryByReference(single, accountId, `invoice-${number}`),
    "the last balance entries": (single) => listBalanceEntries(single, accountId, page),
  };
};
