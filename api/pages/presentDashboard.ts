import { z } from "zod";
import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import { VERIFIED_BY, VERIFIED_BY_WORDS } from "../../modules/dashboard/certificate.rules.ts";
import type { VerifiedBy } from "../../modules/dashboard/certificate.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { isSimulated } from "../../modules/planting/order.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { KINDS, PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { absoluteUrl } from "../endpoints/presentTreeEvidence.ts";
import { formatNumber, formatRough, nameUnits } from "./format.ts";
import { logoUrl } from "./renderDocument.ts";
import type { PageLinks } from "./renderDocument.ts";
import { colorsOf } from "./styles.ts";

/*
 * The presenter of a dashboard: what the page, the card, the badge and the JSON say about each number.
 */

/** One number, in the words of all formats. */
export type Figure = {
  readonly kind: UnitField | "donations" | "carbon";
  readonly number: string;
  readonly label: string;
  /** What is proven of it; null for what has no evidence. */
  readonly proof: string | null;
  readonly detail: string;
};

/** Labels a number of trees of which some are simulated; empty if none is. */
const markSimulated = (simulated: number, all: number): string => {
  if (simulated === 0) {
    return "";
  }
  return simulated === all ? " (simulated)" : ` (${formatNumber(simulated)} of them simulated)`;
};

/** Counts the trees that are simulated: those planted, and of them those verified. */
const countSimulated = ({ sites }: Dashboard) => {
  const simulated = sites.filter(({ partner }) => isSimulated(partner));
  return {
    planted: simulated.reduce((sum, { planted }) => sum + planted, 0),
    verified: simulated.reduce((sum, { verified }) => sum + verified, 0),
  };
};

/** Rounds down. In floating point, 29 of 100 would be 28%, and the product of a large count is not a safe integer. */
const formatShare = (trees: number, total: number): string => {
  const percent = (BigInt(trees) * 100n) / BigInt(total);
  return trees > 0 && percent === 0n ? "less than 1%" : `${percent > 100n ? 100n : percent}%`;
};

/** Says who has verified the real trees, if the list of verifications has all of them. */
const explainVerifiers = ({ verifications }: Dashboard, verified: number): string => {
  const treesOf = (by: VerifiedBy): number =>
    verifications.reduce((sum, each) => sum + (each.by === by ? each.trees : 0), 0);
  const parts = (["third_party", "planting_partner"] as const).filter((by) => treesOf(by) > 0);
  return parts.reduce((sum, by) => sum + treesOf(by), 0) === verified
    ? parts.map((by) => ` ${formatNumber(treesOf(by))} verified ${VERIFIED_BY_WORDS[by]}.`).join("")
    : "";
};

/** Says what became of the registered trees, of which some are verified, and more are planted. */
const explainProgress = (dashboard: Dashboard): string => {
  const { total, planted, plantedAndVerified: verified } = dashboard.trees;
  const simulated = countSimulated(dashboard);
  const waiting = planted - verified;
  const mark = markSimulated(simulated.planted - simulated.verified, waiting);
  if (planted === 0) {
    return "Not planted yet. Planting and verification take months.";
  }
  if (verified === 0) {
    return `${formatNumber(planted)} planted so far${mark}. Verification takes months.`;
  }
  const real = verified - simulated.verified;
  const shareOf = (trees: number): string =>
    `${formatShare(trees, total)} of the registered trees.`;
  const sentences =
    real === 0
      ? `${formatNumber(verified)} planted and verified in a simulation, ${shareOf(verified)}`
      : `${formatNumber(real)} planted and verified, ${shareOf(real)}${explainVerifiers(dashboard, real)}` +
        (simulated.verified === 0
          ? ""
          : ` Another ${formatNumber(simulated.verified)} are simulated.`);
  return waiting === 0
    ? sentences
    : `${sentences} Another ${formatNumber(waiting)} ${waiting === 1 ? "is planted and waits" : "are planted and wait"} for verification${mark}.`;
};

/** What was done with units. */
const VERBS = { tree: "registered", bottle: "rescued" } as const satisfies Record<Kind, string>;

const figureOf = (dashboard: Dashboard, kind: Kind): Figure => {
  const { total, month } = dashboard[UNIT_FIELDS[kind]];
  const verified = dashboard.trees.plantedAndVerified;
  return {
    kind: UNIT_FIELDS[kind],
    number: formatNumber(total),
    label: `${nameUnits(kind, total)} ${VERBS[kind]}`,
    proof:
      kind === PLANTED_KIND
        ? `${formatNumber(verified)} planted and verified${markSimulated(countSimulated(dashboard).verified, verified)}`
        : null,
    detail: month === 0 ? "None yet this month" : `${formatNumber(month)} this month`,
  };
};

/** Lists the kinds that a page has units of. Trees cannot be hidden. */
export const listShownKinds = (dashboard: Dashboard): readonly Kind[] =>
  KINDS.filter((kind) => {
    const field = UNIT_FIELDS[kind];
    return dashboard[field].total > 0 && (field === "trees" || dashboard.sections.has(field));
  });

const listFigures = (dashboard: Dashboard): readonly Figure[] => {
  const { sections, donations, projected } = dashboard;
  const donated: Figure = {
    kind: "donations",
    number: formatCents(donations.amountCents),
    label: "donated to charities",
    proof: null,
    detail: `in ${counted(donations.count, "donation")}`,
  };
  const carbon: Figure = {
    kind: "carbon",
    number: `${formatRough(projected.carbonTons)} t`,
    label: "projected lifetime CO₂",
    proof: null,
    detail: `on ${formatRough(projected.areaHectares)} ha, from planted trees only`,
  };
  return [
    ...listShownKinds(dashboard).map((kind) => figureOf(dashboard, kind)),
    ...(sections.has("donations") ? [donated] : []),
    ...(sections.has("carbon") ? [carbon] : []),
  ];
};

/** Says what is simulated; null if nothing is. Items are marked one by one only if others are real. */
const explainSimulation = (
  { sites, media, trees, isPartnerSimulated }: Dashboard,
  isAllSimulated: boolean,
): string | null => {
  if (isAllSimulated) {
    return "All planting on this page comes from a simulated partner: projects, photos and verification. No trees were planted.";
  }
  if ([...sites, ...media].some(({ partner }) => isSimulated(partner))) {
    return "What this page marks as simulated comes from a simulated partner. No trees were planted for it.";
  }
  return isPartnerSimulated && trees.total > 0 && trees.planted === 0
    ? "The planting partner is simulated. It plants no trees."
    : null;
};

export type DashboardView = ReturnType<typeof viewDashboard>;

/** Returns what the formats of a dashboard show. */
export const viewDashboard = (dashboard: Dashboard, links: PageLinks) => {
  const { name, sites, media, trees } = dashboard;
  const figures = listFigures(dashboard);
  const [headline] = figures;
  const planting = [...sites, ...media];
  const isAllSimulated =
    planting.length > 0 && planting.every(({ partner }) => isSimulated(partner));
  return {
    dashboard,
    links,
    /** The most important first. */
    figures,
    summary:
      headline === undefined
        ? `${name}: public impact record.`
        : `${name}: ${headline.number} ${headline.label}${headline.proof ? `, ${headline.proof}` : ""}.`,
    /** Null without trees. */
    progress: trees.total === 0 ? null : explainProgress(dashboard),
    simulated: countSimulated(dashboard),
    simulation: explainSimulation(dashboard, isAllSimulated),
    /** Whether items are marked as simulated one by one. */
    marksItems: !isAllSimulated,
    colors: colorsOf(dashboard.profile.color),
  };
};

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
    /** Who has verified the trees of the latest planting orders, most trees first. */
    verifications: z.array(
      z.strictObject({
        verifier: z.string(),
        by: z.enum(VERIFIED_BY),
        trees: wholeNumber,
        latest_at: z.iso.datetime(),
        document_url: z.string(),
      }),
    ),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: "Dashboard" });

export const presentDashboard = ({
  dashboard,
  links,
  colors,
  simulated,
}: DashboardView): z.output<typeof dashboardResponse> => {
  const { name, trees, bottles, donations, profile, verifications, updatedAt } = dashboard;
  return {
    name,
    url: links.pageUrl,
    colors,
    logo_url: logoUrl(profile, links.baseUrl),
    trees: {
      total: trees.total,
      month: trees.month,
      planted: trees.planted,
      planted_simulated: simulated.planted,
      planted_and_verified: trees.plantedAndVerified,
      planted_and_verified_simulated: simulated.verified,
    },
    bottles: profile.hiddenSections.includes("bottles") ? null : bottles,
    donations: profile.hiddenSections.includes("donations")
      ? null
      : { count: donations.count, amount_cents: donations.amountCents },
    verifications: verifications.map(({ verifier, by, trees: verified, latestAt, document }) => ({
      verifier,
      by,
      trees: verified,
      latest_at: latestAt.toISOString(),
      document_url: absoluteUrl(document, links.baseUrl),
    })),
    updated_at: updatedAt.toISOString(),
  };
};
