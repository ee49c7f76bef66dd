import { z } from "zod";
import type { Dashboard } from "../../../services/readDashboard.ts";

const wholeNumber = z.int().min(0);

/** What other sites read of an account, without a key. */
export const dashboardReply = z
  .strictObject({
    name: z.string(),
    trees: z.strictObject({
      total: wholeNumber,
      month: wholeNumber,
      planted_and_verified: wholeNumber,
    }),
    bottles: z.strictObject({ total: wholeNumber, month: wholeNumber }),
    donations: z.strictObject({ count: wholeNumber, amount_cents: wholeNumber }),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: "Dashboard" });

export const presentDashboard = ({
  name,
  trees,
  bottles,
  donations,
  updatedAt,
}: Dashboard): z.output<typeof dashboardReply> => ({
  name,
  trees: {
    total: trees.total,
    month: trees.month,
    planted_and_verified: trees.plantedAndVerified,
  },
  bottles,
  donations: { count: donations.count, amount_cents: donations.amountCents },
  updated_at: updatedAt.toISOString(),
});
