import type { CommonQueryMethods } from "slonik";
import { findMeterEvent } from "../billing/meterEvents.sql.ts";
import type { StoredMeterEvent } from "../billing/meterEvents.sql.ts";
import type {
  FoundAccount,
  FoundKey,
  FoundStoreWrite,
  LookupOptions,
} from "./accountLookups.sql.ts";
import {
  findMeterEventId,
  listAccountsByReference,
  listKeysById,
  listStoreWritesByKey,
} from "./accountLookups.sql.ts";
import type { FoundDonation, FoundRegistration, RecordLookups } from "./recordLookups.sql.ts";
import {
  donationLookups,
  listRegistrationsOfMeterEvent,
  registrationLookups,
} from "./recordLookups.sql.ts";
import { RECORD_FIELDS, parseLookup } from "./lookup.rules.ts";
import type { FoundBy, Lookup } from "./lookup.rules.ts";
import { getOrganizationOrStore } from "../accounts/getAccount.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { RegistrationUsage } from "../billing/readUsage.ts";
import { readUsage } from "../billing/readUsage.ts";
import type { OperatorContext } from "../accounts/context.ts";

type Found<Record> = { readonly record: Record; readonly foundBy: readonly FoundBy[] };

export type FoundRecords = {
  readonly accounts: readonly Found<FoundAccount>[];
  readonly keys: readonly Found<FoundKey>[];
  readonly meterEvents: readonly Found<StoredMeterEvent>[];
  readonly registrations: readonly (Found<FoundRegistration> & {
    readonly usage: RegistrationUsage;
  })[];
  readonly donations: readonly Found<FoundDonation>[];
  readonly storeWrites: readonly Found<FoundStoreWrite>[];
  /** Whether there are more records than the limit. */
  readonly hasMore: boolean;
};

type Hits<Record> = { readonly foundBy: FoundBy; readonly records: readonly Record[] };

type Identified = { readonly id: string; readonly createdAt: Date };

/** Merges the results of several look-ups, newest records first. */
const merge = <Record extends Identified>(
  hits: readonly Hits<Record>[],
): readonly Found<Record>[] => {
  const merged = new Map<string, Found<Record>>();
  for (const { foundBy, records } of hits) {
    for (const record of records) {
      const earlier = merged.get(record.id)?.foundBy ?? [];
      merged.set(record.id, { record, foundBy: [...earlier, foundBy] });
    }
  }
  return [...merged.values()].toSorted(
    (one, other) => other.record.createdAt.getTime() - one.record.createdAt.getTime(),
  );
};

/** Finds records of one kind by every field that the text may name. */
const findHits = async <Record extends Identified>(
  db: CommonQueryMethods,
  lookups: RecordLookups<Record>,
  lookup: Lookup,
  options: LookupOptions,
): Promise<readonly Hits<Record>[]> => {
  const hits: Hits<Record>[] = [];
  if (lookup.id !== null) {
    const records = await lookups.listById(db, { ...options, text: lookup.id });
    hits.push({ foundBy: "id", records });
  }
  if (lookup.refundedId !== null) {
    const imported = { ...options, text: lookup.refundedId };
    const records = await lookups.listByField(db, "imported_id", imported);
    hits.push({ foundBy: "imported_id", records });
  }
  for (const field of RECORD_FIELDS) {
    const text = field === "customer_id" ? lookup.customerId : lookup.text;
    const records = await lookups.listByField(db, field, { ...options, text });
    hits.push({ foundBy: field, records });
  }
  hits.push({ foundBy: "idempotency_key", records: await lookups.listByKey(db, options) });
  hits.push({
    foundBy: "refund_idempotency_key",
    records: await lookups.listByRefundKey(db, options),
  });
  if (lookup.mayBeName) {
    hits.push({ foundBy: "customer_name", records: await lookups.listByName(db, options) });
  }
  return hits;
};

const findOfMeterEvent = async (
  db: CommonQueryMethods,
  meterEventId: bigint | null,
  options: LookupOptions,
): Promise<readonly Hits<FoundRegistration>[]> =>
  meterEventId === null
    ? []
    : [
        {
          foundBy: "meter_event",
          records: await listRegistrationsOfMeterEvent(db, meterEventId, options),
        },
      ];

const findAccounts = async (
  db: CommonQueryMethods,
  lookup: Lookup,
  options: LookupOptions,
): Promise<readonly Found<FoundAccount>[]> => {
  const by = lookup.id === null ? "stripe_customer" : "id";
  if (lookup.id === null && !lookup.mayBeStripeCustomer) {
    return [];
  }
  const accounts = await listAccountsByReference(db, by, {
    ...options,
    text: lookup.id ?? lookup.text,
  });
  return accounts.map((record) => ({ record, foundBy: [by] }));
};

const findKeys = async (
  db: CommonQueryMethods,
  { id }: Lookup,
  options: LookupOptions,
): Promise<readonly Found<FoundKey>[]> => {
  const keys = id === null ? [] : await listKeysById(db, { ...options, text: id });
  return keys.map((record) => ({ record, foundBy: ["id"] }));
};

/** Counts, for each account, the records that name a customer. */
const countNamed = (
  found: readonly Found<FoundRegistration | FoundDonation>[],
): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const { record } of found) {
    const { accountId, customerName, customerEmail, customerId, orderId } = record;
    if ([customerName, customerEmail, customerId, orderId].some((field) => field !== null)) {
      counts.set(accountId, (counts.get(accountId) ?? 0) + 1);
    }
  }
  return counts;
};

/** Records, for each store, how many records that name its customers are found. */
const recordSearch = (
  { db, clock, actor }: OperatorContext,
  found: Pick<FoundRecords, "registrations" | "donations">,
): Promise<void> => {
  const registrations = countNamed(found.registrations);
  const donations = countNamed(found.donations);
  return db.transaction(async (transaction) => {
    for (const accountId of new Set([...registrations.keys(), ...donations.keys()])) {
      await recordAction(transaction, actor, clock.now(), {
        action: "find",
        accountId,
        details: {
          registrations: registrations.get(accountId) ?? 0,
          donations: donations.get(accountId) ?? 0,
        },
      });
    }
  });
};

/**
 * Finds the records that a text may mean: an id of a registration, refund, donation, account or API key, an idempotency key, an
 * attribution, an order, a customer, a Stripe customer, or a meter event. Every look-up uses an index and is limited. The
 * audit log records that customers of stores were shown.
 * @param accountId an organization or a store; null for all
 * @throws DomainError record_not_found if there is no such account
 */
export const findRecords = async (
  context: OperatorContext,
  {
    text,
    accountId,
    limit,
  }: { readonly text: string; readonly accountId: string | null; readonly limit: number },
): Promise<FoundRecords> => {
  const { db } = context;
  if (accountId !== null) {
    await getOrganizationOrStore(db, accountId);
  }
  const lookup = parseLookup(text);
  // One more than is shown reveals whether there are more.
  const options = { text: lookup.text, accountId, limit: limit + 1 };
  const meterEventId = lookup.mayBeMeterEvent ? await findMeterEventId(db, options) : null;
  const meterEvent = meterEventId === null ? null : await findMeterEvent(db, meterEventId);
  const registrations = merge([
    ...(await findHits(db, registrationLookups, lookup, options)),
    ...(await findOfMeterEvent(db, meterEventId, options)),
  ]);
  const donations = merge(await findHits(db, donationLookups, lookup, options));
  const storeWrites = await listStoreWritesByKey(db, options);
  const shown: FoundRecords["registrations"][number][] = [];
  for (const registration of registrations.slice(0, limit)) {
    shown.push({ ...registration, usage: await readUsage(db, registration.record) });
  }
  const found: FoundRecords = {
    accounts: await findAccounts(db, lookup, options),
    keys: await findKeys(db, lookup, options),
    meterEvents: meterEvent === null ? [] : [{ record: meterEvent, foundBy: ["meter_event"] }],
    registrations: shown,
    donations: donations.slice(0, limit),
    storeWrites: storeWrites
      .slice(0, limit)
      .map((record) => ({ record, foundBy: ["idempotency_key"] })),
    hasMore: [registrations, donations, storeWrites].some(({ length }) => length > limit),
  };
  await recordSearch(context, found);
  return found;
};
