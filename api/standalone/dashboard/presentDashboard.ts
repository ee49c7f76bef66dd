import { z } from "zod";
import type { Dashboard } from "../../../services/dashboard/readDashboard.ts";
import { countSimulated } from "./simulation.ts";

const wholeNumber = z.int().min(0);

/** Public: needs no key. */
export const dashboardResponse = z
  .strictObject({
    name: z.string(),
    trees: z.strictObject({
      total: wholeNumber,
      month: wholeNumber,
      planted_and_verified: wholeNumber,
      /** How many of those are simulated. */
      planted_and_verified_simulated: wholeNumber,
    }),
    bottles: z.strictObject({ total: wholeNumber, month: wholeNumber }),
    donations: z.strictObject({ count: wholeNumber, amount_cents: wholeNumber }),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: "Dashboard" });

export const presentDashboard = (dashboard: Dashboard): z.output<typeof dashboardResponse> => {
  const { name, trees, bottles, donations, updatedAt } = dashboard;
  return {
    name,
    trees: {
      total: trees.total,
      month: trees.month,
      planted_and_verified: trees.plantedAndVerified,
      planted_and_verified_simulated: countSimulated(dashboard).plantedAndVerified,
    },
    bottles,
    donations: { count: donations.count, amount_cents: donations.amountCents },
    updated_at: updatedAt.toISOString(),
  };
};
