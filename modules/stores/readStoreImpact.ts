import type { DatabasePool } from "slonik";
import { readDonationTotals } from "../charities/donationTotals.sql.ts";
import { sumStoreRecords } from "./storeRecords.sql.ts";
import { readTotals } from "../registrations/totals.sql.ts";
import { centsToDollars } from "../records/money.rules.ts";
import type { AccountMode, Kind } from "../records/owner.rules.ts";
import { conditionsOf } from "./customers.rules.ts";
import type { CustomerFilter } from "./customers.rules.ts";
import { projectGenericCo2Kg } from "../planting/impactFactors.rules.ts";
import type { Context } from "../../runtime/context.ts";

/**
 * Returns a store's lifetime totals, or a customer's, as clients see them, without what was refunded.
 * @param context.reads for the sums of a customer, of whom a store may have many records
 */
export const readStoreImpact = async (
  { db, reads, clock }: Context & { readonly reads: DatabasePool },
  owner: AccountMode,
  filter: CustomerFilter,
) => {
  const now = clock.now();
  const isScoped = conditionsOf(filter).length > 0;
  const readUnits = async (kind: Kind): Promise<number> =>
    isScoped
      ? sumStoreRecords(reads, "registration", { ...owner, kind }, filter)
      : (await readTotals(db, { ...owner, kind }, now)).all;
  const readCents = async (): Promise<number> =>
    isScoped
      ? sumStoreRecords(reads, "donation", owner, filter)
      : (await readDonationTotals(db, owner)).amountCents;
  const [trees, bottles, cents] = await Promise.all([
    readUnits("tree"),
    readUnits("bottle"),
    readCents(),
  ]);
  return {
    trees,
    plastic_bottles: bottles,
    donations: centsToDollars(cents),
    // Projected over the trees' lifetime; bottles do not count.
    co2_kg: projectGenericCo2Kg(trees, now),
    customer_scoped: isScoped,
  };
};
