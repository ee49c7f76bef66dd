import type { DatabasePool } from "slonik";
import { readDonationTotals } from "../../db/charities/donationTotals.ts";
import { sumStoreDonations } from "../../db/stores/storeDonations.ts";
import { sumStoreRegistrations } from "../../db/stores/storeRegistrations.ts";
import { readTotals } from "../../db/registrations/totals.ts";
import { PLANTED_KIND } from "../../domain/accounts/accounts.ts";
import type { AccountMode, Kind } from "../../domain/accounts/accounts.ts";
import type { CustomerFilter } from "../../domain/stores/customers.ts";
import { projectGenericCo2Kg } from "../../domain/planting/impactFactors.ts";
import type { Context } from "../context.ts";

/** Reversed units and refunded donations are not counted. */
export type StoreImpactTotals = {
  readonly units: Readonly<Record<Kind, number>>;
  readonly donationCents: number;
  /** Projected over the trees' lifetime, in kilograms; bottles do not count. */
  readonly co2Kg: number;
  readonly customerScoped: boolean;
};

const readUnits = async (
  read: (kind: Kind) => Promise<number>,
): Promise<StoreImpactTotals["units"]> => {
  const [tree, bottle] = await Promise.all([read("tree"), read("bottle")]);
  return { tree, bottle };
};

const readCounters = async (db: DatabasePool, owner: AccountMode, now: Date) => {
  const [units, donations] = await Promise.all([
    readUnits(async (kind) => (await readTotals(db, { ...owner, kind }, now)).all),
    readDonationTotals(db, owner, now),
  ]);
  return { units, donationCents: donations.all.amountCents };
};

const sumRecords = async (db: DatabasePool, owner: AccountMode, filter: CustomerFilter) => {
  const [units, donationCents] = await Promise.all([
    readUnits((kind) => sumStoreRegistrations(db, { ...owner, kind }, filter)),
    sumStoreDonations(db, owner, filter),
  ]);
  return { units, donationCents };
};

/** Returns a store's lifetime totals from its counters, or a customer's from the customer's records. */
export const readStoreImpact = async (
  { db, clock }: Context,
  owner: AccountMode,
  filter: CustomerFilter,
): Promise<StoreImpactTotals> => {
  const now = clock.now();
  const customerScoped = Object.keys(filter).length > 0;
  const sums = customerScoped
    ? await sumRecords(db, owner, filter)
    : await readCounters(db, owner, now);
  return { ...sums, co2Kg: projectGenericCo2Kg(sums.units[PLANTED_KIND], now), customerScoped };
};
