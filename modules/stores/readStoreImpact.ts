import type { DatabasePool } from "slonik";
import { readDonationTotals } from "../charities/donationTotals.sql.ts";
import { sumStoreRecords } from "./storeRecords.sql.ts";
import { readTotals } from "../registrations/totals.sql.ts";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { conditionsOf } from "./customers.rules.ts";
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
  const customerScoped = conditionsOf(filter).length > 0;
  const readUnits = async (kind: Kind): Promise<number> =>
    customerScoped
      ? sumStoreRecords(reads, "registration", { ...owner, kind }, filter)
      : (await readTotals(db, { ...owner, kind }, now)).all;
  const readCents = async (): Promise<number> =>
    customerScoped
      ? sumStoreRecords(reads, "donation", owner, filter)
      : (await readDonationTotals(db, owner)).amountCents;
  const [tree, bottle, donationCents] = await Promise.all([
    readUnits("tree"),
    readUnits("bottle"),
    readCents(),
  ]);
  const units = { tree, bottle };
  const co2Kg = projectGenericCo2Kg(units[PLANTED_KIND], now);
  return { units, donationCents, co2Kg, customerScoped };
};
