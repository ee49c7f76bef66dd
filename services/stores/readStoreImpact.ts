import type { DatabasePool } from "slonik";
import { readDonationTotals } from "../../db/charities/donationTotals.ts";
import { sumStoreDonations } from "../../db/stores/storeDonations.ts";
import { sumStoreRegistrations } from "../../db/stores/storeRegistrations.ts";
import { readTotals } from "../../db/registrations/totals.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { CustomerFilter } from "../../domain/stores/customers.ts";
import { projectGenericCo2Kg } from "../../domain/planting/impactFactors.ts";

/** Reversed units and refunded donations are not counted. */
export type StoreImpactTotals = {
  readonly trees: number;
  readonly bottles: number;
  readonly donationCents: number;
  /** Projected over the trees' lifetime, in kilograms; bottles do not count. */
  readonly co2Kg: number;
  readonly customerScoped: boolean;
};

const readCounters = async (db: DatabasePool, owner: AccountMode, now: Date) => {
  const [trees, bottles, donations] = await Promise.all([
    readTotals(db, { ...owner, kind: "tree" }, now),
    readTotals(db, { ...owner, kind: "bottle" }, now),
    readDonationTotals(db, owner, now),
  ]);
  return { trees: trees.all, bottles: bottles.all, donationCents: donations.all.amountCents };
};

const sumRecords = async (db: DatabasePool, owner: AccountMode, filter: CustomerFilter) => {
  const [trees, bottles, donationCents] = await Promise.all([
    sumStoreRegistrations(db, { ...owner, kind: "tree" }, filter),
    sumStoreRegistrations(db, { ...owner, kind: "bottle" }, filter),
    sumStoreDonations(db, owner, filter),
  ]);
  return { trees, bottles, donationCents };
};

/** Returns a store's lifetime totals from its counters, or a customer's from the customer's records. */
export const readStoreImpact = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  owner: AccountMode,
  filter: CustomerFilter,
): Promise<StoreImpactTotals> => {
  const now = clock.now();
  const customerScoped = Object.keys(filter).length > 0;
  const sums = customerScoped
    ? await sumRecords(db, owner, filter)
    : await readCounters(db, owner, now);
  return { ...sums, co2Kg: projectGenericCo2Kg(sums.trees, now), customerScoped };
};
