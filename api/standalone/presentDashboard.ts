import { z } from "zod";
import type { HideableSection, UnitField } from "../../modules/accounts/profile.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { countSimulated } from "../pages/figures.ts";
import type { PageLinks } from "../pages/renderPage.ts";
import { logoUrl } from "../pages/renderBrand.ts";
import { colorsOf } from "../pages/styles.ts";

const wholeNumber = z.int().min(0);

const unitFields = {
  trees: z.strictObject({
    total: wholeNumber,
    month: wholeNumber,
    /** Also the verified ones. */
    planted: wholeNumber,
    planted_simulated: wholeNumber,
    planted_and_verified: wholeNumber,
    /** How many of those are simulated. */
    planted_and_verified_simulated: wholeNumber,
  }),
  /** Null if the organization hides them; the same for donations. */
  bottles: z.strictObject({ total: wholeNumber, month: wholeNumber }).nullable(),
} satisfies Record<UnitField, z.ZodType>;

/** Public: needs no key. */
export const dashboardResponse = z
  .strictObject({
    name: z.string(),
    url: z.url(),
    logo_url: z.url().nullable(),
    /** The organization's color, legible in each mode. */
    colors: z.strictObject({ light: z.string(), dark: z.string() }),
    ...unitFields,
    donations: z.strictObject({ count: wholeNumber, amount_cents: wholeNumber }).nullable(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: "Dashboard" });

export const presentDashboard = (
  dashboard: Dashboard,
  { baseUrl, pageUrl }: PageLinks,
): z.output<typeof dashboardResponse> => {
  const { name, trees, bottles, donations, profile, updatedAt } = dashboard;
  const simulated = countSimulated(dashboard);
  const isHidden = (section: HideableSection): boolean => profile.hiddenSections.includes(section);
  return {
    name,
    url: pageUrl,
    colors: colorsOf(profile.color),
    logo_url: profile.logo && logoUrl(profile.logo.hash, baseUrl),
    trees: {
      total: trees.total,
      month: trees.month,
      planted: trees.planted,
      planted_simulated: simulated.planted,
      planted_and_verified: trees.plantedAndVerified,
      planted_and_verified_simulated: simulated.plantedAndVerified,
    },
    bottles: isHidden("bottles") ? null : bottles,
    donations: isHidden("donations")
      ? null
      : { count: donations.count, amount_cents: donations.amountCents },
    updated_at: updatedAt.toISOString(),
  };
};
