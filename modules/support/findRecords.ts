import { listMeterEventsOf } from "../billing/meterEventReports.sql.ts";
import { findMeterEventId, listFoundAccounts, listFoundKeys } from "./accountLookups.sql.ts";
import { listFoundDonations, listFoundRegistrations } from "./recordLookups.sql.ts";
import type { FoundDonation, FoundRegistration } from "./recordLookups.sql.ts";
import { parseLookup } from "./lookup.rules.ts";
import type { Lookup } from "./lookup.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { UsageWithEvents } from "../registrations/readUsageReports.ts";
import { readUsageEvents } from "../registrations/readUsageReports.ts";
import type { OperatorContext } from "../accounts/context.ts";

const namesCustomer = (record: FoundRegistration | FoundDonation): boolean =>
  [record.customerName, record.customerEmail, record.customerId, record.orderId].some(
    (field) => field !== null,
  );

/** Adds to the audit log, for each store, how many records that name its customers are found. */
const recordSearch = (
  { db, clock, actor }: OperatorContext,
  found: readonly (FoundRegistration | FoundDonation)[],
): Promise<void> => {
  const byAccount = Map.groupBy(found.filter(namesCustomer), ({ accountId }) => accountId);
  return db.transaction(async (transaction) => {
    for (const [accountId, records] of byAccount) {
      const registrations = records.filter((record) => "kind" in record).length;
      const details = { registrations, donations: records.length - registrations };
      await recordAction(transaction, actor, clock.now(), { action: "find", accountId, details });
    }
  });
};

/**
 * Finds what a text may mean, as `impact find --help` lists. Every look-up of records uses an index and is limited. The audit
 * log records that customers of stores were shown.
 */
export const findRecords = async (
  context: OperatorContext,
  { limit, ...given }: Pick<Lookup, "text" | "accountId" | "limit">,
) => {
  const { db } = context;
  // One more than is shown reveals whether there are more.
  const lookup = parseLookup({ ...given, limit: limit + 1 });
  const { meterEvent: named, accountId } = lookup;
  const meterEventId = named && (await findMeterEventId(db, named, accountId));
  const lists = {
    accounts: await listFoundAccounts(db, lookup),
    keys: await listFoundKeys(db, lookup),
    registrations: await listFoundRegistrations(db, lookup),
    donations: await listFoundDonations(db, lookup),
  };
  const registrations: (FoundRegistration & { readonly usage: UsageWithEvents })[] = [];
  for (const registration of lists.registrations.slice(0, limit)) {
    registrations.push({ ...registration, usage: await readUsageEvents(db, registration) });
  }
  const found = {
    accounts: lists.accounts.slice(0, limit),
    keys: lists.keys.slice(0, limit),
    meterEvents: meterEventId === null ? [] : await listMeterEventsOf(db, { id: meterEventId }),
    registrations,
    donations: lists.donations.slice(0, limit),
    hasMore: Object.values(lists).some(({ length }) => length > limit),
  };
  await recordSearch(context, [...registrations, ...found.donations]);
  return found;
};

export type FoundRecords = Awaited<ReturnType<typeof findRecords>>;
