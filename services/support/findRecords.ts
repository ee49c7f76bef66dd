import type { CommonQueryMethods } from "slonik";
import { findMeterEvent } from "../../db/billing/meterEvents.ts";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import type { FoundAccount, FoundStoreWrite } from "../../db/support/accountLookups.ts";
import {
  findMeterEventId,
  listAccountsByReference,
  listStoreWritesByKey,
} from "../../db/support/accountLookups.ts";
import type { LookupOptions } from "../../db/support/lookupOptions.ts";
import type { FoundDonation, FoundRegistration } from "../../db/support/recordLookups.ts";
import {
  listDonationsByField,
  listDonationsById,
  listDonationsByName,
  listDonationsByRefundKey,
  listRegistrationsByField,
  listRegistrationsById,
  listRegistrationsByName,
  listRegistrationsByRefundKey,
  listRegistrationsOfMeterEvent,
} from "../../db/support/recordLookups.ts";
import { RECORD_FIELDS, parseLookup } from "../../domain/support/lookup.ts";
import type { FoundBy, Lookup } from "../../domain/support/lookup.ts";
import { findAccount } from "../../db/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";
import type { RegistrationUsage } from "../billing/readUsage.ts";
import { readUsage } from "../billing/readUsage.ts";

type Found<Record> = { readonly record: Record; readonly foundBy: readonly FoundBy[] };

export type FoundRecords = {
  readonly accounts: readonly Found<FoundAccount>[];
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

/** Merges the results of several look-ups, newest records first. */
const merge = <Record extends { readonly id: string; readonly createdAt: Date }>(
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

const findRegistrations = async (
  db: CommonQueryMethods,
  lookup: Lookup,
  options: LookupOptions,
  meterEventId: bigint | null,
): Promise<readonly Found<FoundRegistration>[]> => {
  const hits: Hits<FoundRegistration>[] = [];
  if (lookup.id !== null) {
    const records = await listRegistrationsById(db, { ...options, text: lookup.id });
    hits.push({ foundBy: "id", records });
  }
  for (const field of RECORD_FIELDS) {
    const text = field === "customer_id" ? lookup.customerId : lookup.text;
    const records = await listRegistrationsByField(db, field, { ...options, text });
    hits.push({ foundBy: field, records });
  }
  hits.push({
    foundBy: "refund_idempotency_key",
    records: await listRegistrationsByRefundKey(db, options),
  });
  if (lookup.mayBeName) {
    hits.push({ foundBy: "customer_name", records: await listRegistrationsByName(db, options) });
  }
  if (meterEventId !== null) {
    const records = await listRegistrationsOfMeterEvent(db, meterEventId, options);
    hits.push({ foundBy: "meter_event", records });
  }
  return merge(hits);
};

const findDonations = async (
  db: CommonQueryMethods,
  lookup: Lookup,
  options: LookupOptions,
): Promise<readonly Found<FoundDonation>[]> => {
  const hits: Hits<FoundDonation>[] = [];
  if (lookup.id !== null) {
    const records = await listDonationsById(db, { ...options, text: lookup.id });
    hits.push({ foundBy: "id", records });
  }
  for (const field of RECORD_FIELDS) {
    const text = field === "customer_id" ? lookup.customerId : lookup.text;
    const records = await listDonationsByField(db, field, { ...options, text });
    hits.push({ foundBy: field, records });
  }
  hits.push({
    foundBy: "refund_idempotency_key",
    records: await listDonationsByRefundKey(db, options),
  });
  if (lookup.mayBeName) {
    hits.push({ foundBy: "customer_name", records: await listDonationsByName(db, options) });
  }
  return merge(hits);
};

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

/**
 * Finds the records that a text may mean: an id of a registration, refund, donation or account, an idempotency key, an
 * attribution, an order, a customer, a Stripe customer, or a meter event. Every look-up uses an index and is limited.
 * @param accountId an organization or a store; null for all
 * @throws DomainError record_not_found if there is no such account
 */
export const findRecords = async (
  { db }: { readonly db: CommonQueryMethods },
  {
    text,
    accountId,
    limit,
  }: { readonly text: string; readonly accountId: string | null; readonly limit: number },
): Promise<FoundRecords> => {
  if (accountId !== null && !(await findAccount(db, accountId))) {
    throw new DomainError("record_not_found", `account ${accountId} not found`);
  }
  const lookup = parseLookup(text);
  // One more than is shown reveals whether there are more.
  const options = { text: lookup.text, accountId, limit: limit + 1 };
  const meterEventId = lookup.mayBeMeterEvent ? await findMeterEventId(db, options) : null;
  const meterEvent = meterEventId === null ? null : await findMeterEvent(db, meterEventId);
  const registrations = await findRegistrations(db, lookup, options, meterEventId);
  const donations = await findDonations(db, lookup, options);
  const storeWrites = await listStoreWritesByKey(db, options);
  const shown: FoundRecords["registrations"][number][] = [];
  for (const found of registrations.slice(0, limit)) {
    shown.push({ ...found, usage: await readUsage(db, found.record) });
  }
  return {
    accounts: await findAccounts(db, lookup, options),
    meterEvents: meterEvent === null ? [] : [{ record: meterEvent, foundBy: ["meter_event"] }],
    registrations: shown,
    donations: donations.slice(0, limit),
    storeWrites: storeWrites
      .slice(0, limit)
      .map((record) => ({ record, foundBy: ["idempotency_key"] })),
    hasMore: [registrations, donations, storeWrites].some(({ length }) => length > limit),
  };
};
