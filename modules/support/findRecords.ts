import { findMeterEvent } from "../billing/meterEvents.sql.ts";
import { findMeterEventId, listFoundAccounts, listFoundKeys } from "./accountLookups.sql.ts";
import { listFoundDonations, listFoundRegistrations } from "./recordLookups.sql.ts";
import type { FoundDonation, FoundRegistration } from "./recordLookups.sql.ts";
import { parseLookup } from "./lookup.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { UsageWithEvents } from "../registrations/readUsageReports.ts";
import { readUsageEvents } from "../registrations/readUsageReports.ts";
import type { OperatorContext } from "../accounts/context.ts";

/** Records, for each store, how many records that name its customers are found. */
const recordSearch = (
  { db, clock, actor }: OperatorContext,
  found: {
    readonly registrations: readonly FoundRegistration[];
    readonly donations: readonly FoundDonation[];
  },
): Promise<void> => {
  const shown = new Map<string, { readonly registrations: number; readonly donations: number }>();
  for (const list of ["registrations", "donations"] as const) {
    for (const record of found[list]) {
      const { accountId, customerName, customerEmail, customerId, orderId } = record;
      if ([customerName, customerEmail, customerId, orderId].some((field) => field !== null)) {
        const counts = shown.get(accountId) ?? { registrations: 0, donations: 0 };
        shown.set(accountId, { ...counts, [list]: counts[list] + 1 });
      }
    }
  }
  return db.transaction(async (transaction) => {
    for (const [accountId, details] of shown) {
      await recordAction(transaction, actor, clock.now(), { action: "find", accountId, details });
    }
  });
};

/**
 * Finds what a text may mean: an id of a registration, refund, donation, account or API key, or the beginning of one; a name,
 * a domain or a Stripe customer of an account; an idempotency key, an attribution, a value in metadata, an order, a customer,
 * or a meter event. Every look-up of records uses an index and is limited. The audit log records that customers of stores
 * were shown.
 * @param accountId an organization or a store; null for all
 */
export const findRecords = async (
  context: OperatorContext,
  {
    text,
    accountId,
    limit,
  }: { readonly text: string; readonly accountId: string | null; readonly limit: number },
) => {
  const { db } = context;
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
  };
  const registrations: (FoundRegistration & { readonly usage: UsageWithEvents })[] = [];
  for (const registration of lists.registrations.slice(0, limit)) {
    registrations.push({ ...registration, usage: await readUsageEvents(db, registration) });
  }
  const found = {
    accounts: lists.accounts.slice(0, limit),
    keys: lists.keys.slice(0, limit),
    meterEvents: meterEvent === null ? [] : [meterEvent],
    registrations,
    donations: lists.donations.slice(0, limit),
    /** Whether there are more records than the limit. */
    hasMore: Object.values(lists).some(({ length }) => length > limit),
  };
  await recordSearch(context, found);
  return found;
};

export type FoundRecords = Awaited<ReturnType<typeof findRecords>>;
