import type { DatabasePool } from "slonik";
import { readDonationTotals } from "../charities/donationTotals.sql.ts";
import { sumStoreDonations } from "./storeDonations.sql.ts";
import { sumStoreRegistrations } from "./storeRegistrations.sql.ts";
import { readTotals } from "../registrations/totals.sql.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import type { CustomerFilter } from "./customers.rules.ts";
import { projectGenericCo2Kg } from "../planting/impactFactors.rules.ts";
import type { Context } from "../../runtime/context.ts";

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
    readDonationTotals(db, owner),
  ]);
  return { units, donationCents: donations.amountCents };
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
  {
    db,
    reads,
    clock,
  }: Pick<Context, "db" | "clock"> & {
    /** For the sums of a customer, of whom a store may have many records. */
    readonly reads: DatabasePool;
  },
  owner: AccountMode,
  filter: CustomerFilter,
): Promise<StoreImpactTotals> => {
  const now = clock.now();
  const customerScoped = Object.keys(filter).length > 0;
  const sums = customerScoped
    ? await sumRecords(reads, owner, filter)
    : await readCounters(db, owner, now);
  return { ...sums, co2Kg: projectGenericCo2Kg(sums.units[PLANTED_KIND], now), customerScoped };
};
