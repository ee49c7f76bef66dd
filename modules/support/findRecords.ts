import { findMeterEvent } from "../billing/meterEvents.sql.ts";
import type { StoredMeterEvent } from "../billing/meterEvents.sql.ts";
import {
  findMeterEventId,
  listFoundAccounts,
  listFoundKeys,
  listStoreWritesByKey,
} from "./accountLookups.sql.ts";
import type { FoundAccount, FoundKey, FoundStoreWrite } from "./accountLookups.sql.ts";
import { listFoundDonations, listFoundRegistrations } from "./recordLookups.sql.ts";
import type { FoundDonation, FoundRegistration } from "./recordLookups.sql.ts";
import { parseLookup } from "./lookup.rules.ts";
import { getOrganizationOrStore } from "../accounts/getAccount.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { UsageWithEvents } from "../registrations/readUsageReports.ts";
import { readUsageEvents } from "../registrations/readUsageReports.ts";
import type { OperatorContext } from "../accounts/context.ts";

export type FoundRecords = {
  readonly accounts: readonly FoundAccount[];
  readonly keys: readonly FoundKey[];
  readonly meterEvents: readonly StoredMeterEvent[];
  readonly registrations: readonly (FoundRegistration & { readonly usage: UsageWithEvents })[];
  readonly donations: readonly FoundDonation[];
  readonly storeWrites: readonly FoundStoreWrite[];
  /** Whether there are more records than the limit. */
  readonly hasMore: boolean;
};

/** Counts, for each account, the records that name a customer. */
const countNamed = (
  found: readonly (FoundRegistration | FoundDonation)[],
): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const record of found) {
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
 * Finds what a text may mean: an id of a registration, refund, donation, account or API key, or the beginning of one; a name,
 * a domain or a Stripe customer of an account; an idempotency key, an attribution, a value in metadata, an order, a customer,
 * or a meter event. Every look-up of records uses an index and is limited. The audit log records that customers of stores
 * were shown.
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
  const lists = {
    accounts: await listFoundAccounts(db, lookup, options),
    keys: await listFoundKeys(db, lookup, options),
    registrations: await listFoundRegistrations(db, lookup, meterEventId, options),
    donations: await listFoundDonations(db, lookup, options),
    storeWrites: await listStoreWritesByKey(db, options),
  };
  const registrations: FoundRecords["registrations"][number][] = [];
  for (const registration of lists.registrations.slice(0, limit)) {
    registrations.push({ ...registration, usage: await readUsageEvents(db, registration) });
  }
  const found: FoundRecords = {
    accounts: lists.accounts.slice(0, limit),
    keys: lists.keys.slice(0, limit),
    meterEvents: meterEvent === null ? [] : [meterEvent],
    registrations,
    donations: lists.donations.slice(0, limit),
    storeWrites: lists.storeWrites.slice(0, limit),
    hasMore: Object.values(lists).some(({ length }) => length > limit),
  };
  await recordSearch(context, found);
  return found;
};
