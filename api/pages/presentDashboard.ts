import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import { VERIFIED_BY_WORDS } from "../../modules/dashboard/certificate.rules.ts";
import type { VerifiedBy } from "../../modules/dashboard/certificate.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import { KINDS, PLANTED_KIND } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { absoluteUrl } from "../endpoints/presentTreeEvidence.ts";
import { formatNumber, formatRough, nameUnits } from "./format.ts";
import { logoUrl } from "./renderDocument.ts";
import type { PageLinks } from "./renderDocument.ts";
import { colorsOf } from "./styles.ts";

/** One number, in the words that the page, the card and the badge share. */
export type Figure = {
  readonly kind: UnitField | "donations" | "carbon";
  readonly number: string;
  readonly label: string;
  /** What is proven of it; null for what has no evidence. */
  readonly proof: string | null;
  readonly detail: string;
};

const markSimulated = ({ isSimulated }: Dashboard, trees: number): string =>
  isSimulated && trees > 0 ? " (simulated)" : "";

/** Rounds down. In floating point, 29 of 100 would be 28%, and the product of a large count is not a safe integer. */
const formatShare = (trees: number, total: number): string => {
  const percent = (BigInt(trees) * 100n) / BigInt(total);
  return trees > 0 && percent === 0n ? "less than 1%" : `${percent > 100n ? 100n : percent}%`;
};

/** Says who has verified the trees, if the list of verifications has all of them. */
const explainVerifiers = ({ verifications, trees }: Dashboard): string => {
  const treesOf = (by: VerifiedBy): number =>
    verifications.reduce((sum, each) => sum + (each.by === by ? each.trees : 0), 0);
  const parts = (["third_party", "planting_partner"] as const).filter((by) => treesOf(by) > 0);
  return parts.reduce((sum, by) => sum + treesOf(by), 0) === trees.plantedAndVerified
    ? parts.map((by) => ` ${formatNumber(treesOf(by))} verified ${VERIFIED_BY_WORDS[by]}.`).join("")
    : "";
};

/** Says what became of the registered trees, of which some are verified, and more are planted. */
const explainProgress = (dashboard: Dashboard): string => {
  const { total, planted, plantedAndVerified: verified } = dashboard.trees;
  const waiting = planted - verified;
  if (planted === 0) {
    return "Not planted yet. Planting and verification take months.";
  }
  if (verified === 0) {
    return `${formatNumber(planted)} planted so far${markSimulated(dashboard, planted)}. Verification takes months.`;
  }
  const where = dashboard.isSimulated ? " in a simulation" : "";
  const sentences = `${formatNumber(verified)} planted and verified${where}, ${formatShare(verified, total)} of the registered trees.${explainVerifiers(dashboard)}`;
  return waiting === 0
    ? sentences
    : `${sentences} Another ${formatNumber(waiting)} planted, waiting for verification${markSimulated(dashboard, waiting)}.`;
};

const VERBS = { tree: "registered", bottle: "rescued" } as const satisfies Record<Kind, string>;

const figureOf = (dashboard: Dashboard, kind: Kind): Figure | null => {
  const unit = UNIT_FIELDS[kind];
  const { total, month } = dashboard[unit] ?? { total: 0, month: 0 };
  const verified = dashboard.trees.plantedAndVerified;
  return total === 0
    ? null
    : {
        kind: unit,
        number: formatNumber(total),
        label: `${nameUnits(unit, total)} ${VERBS[kind]}`,
        proof:
          kind === PLANTED_KIND
            ? `${formatNumber(verified)} planted and verified${markSimulated(dashboard, verified)}`
            : null,
        detail: month === 0 ? "None yet this month" : `${formatNumber(month)} this month`,
      };
};

const listFigures = (dashboard: Dashboard): readonly Figure[] => {
  const { donations, projected } = dashboard;
  const figures: readonly (Figure | null)[] = [
    ...KINDS.map((kind) => figureOf(dashboard, kind)),
    donations && donations.count > 0
      ? {
          kind: "donations",
          number: formatCents(donations.amountCents),
          label: "donated to charities",
          proof: null,
          detail: `in ${counted(donations.count, "donation")}`,
        }
      : null,
    projected && {
      kind: "carbon",
      number: `${formatRough(projected.carbonTons)} t`,
      label: "projected lifetime CO₂",
      proof: null,
      detail: `on ${formatRough(projected.areaHectares)} ha, from planted trees only`,
    },
  ];
  return figures.filter((figure) => figure !== null);
};

const explainSimulation = ({
  trees,
  isSimulated,
  isPartnerSimulated,
}: Dashboard): string | null => {
  if (isSimulated) {
    return "All planting on this page comes from a simulated partner: projects, photos and verification. No trees were planted.";
  }
  return isPartnerSimulated && trees.total > 0 && trees.planted === 0
    ? "The planting partner is simulated. It plants no trees."
    : null;
};

export type DashboardView = ReturnType<typeof viewDashboard>;

export const viewDashboard = (dashboard: Dashboard, links: PageLinks) => {
  const { name, trees } = dashboard;
  const figures = listFigures(dashboard);
  const [headline] = figures;
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
    simulation: explainSimulation(dashboard),
    colors: colorsOf(dashboard.profile.color),
  };
};

export const presentDashboard = ({ dashboard, links, colors }: DashboardView) => {
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
      planted_and_verified: trees.plantedAndVerified,
      simulated: dashboard.isSimulated,
    },
    bottles,
    donations: donations && { count: donations.count, amount_cents: donations.amountCents },
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
