import { UNIT_FIELDS } from "../../modules/accounts/profile.rules.ts";
import type { UnitField } from "../../modules/accounts/profile.rules.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { formatCents } from "../../modules/records/money.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { formatNumber, nameUnits } from "./format.ts";
import { isSimulated } from "../../modules/planting/order.rules.ts";

/** Counts the trees that are simulated: those planted, and of them those verified. */
export const countSimulated = ({
  sites,
}: Dashboard): { readonly planted: number; readonly plantedAndVerified: number } => {
  const simulated = sites.filter(({ partner }) => isSimulated(partner));
  return {
    planted: simulated.reduce((sum, { planted }) => sum + planted, 0),
    plantedAndVerified: simulated.reduce((sum, { verified }) => sum + verified, 0),
  };
};

/** Returns whether there is planting, and all of it is simulated. */
export const isAllSimulated = ({ sites, media }: Dashboard): boolean =>
  sites.length + media.length > 0 &&
  [...sites, ...media].every(({ partner }) => isSimulated(partner));

/** Returns the label of a number of trees of which some are simulated; empty if none is. */
export const markSimulated = (simulated: number, all: number): string => {
  if (simulated === 0) {
    return "";
  }
  return simulated === all ? " (simulated)" : ` (${formatNumber(simulated)} of them simulated)`;
};

/** Returns the label of the number of planted and verified trees; empty if none is simulated. */
export const markVerified = (dashboard: Dashboard): string =>
  markSimulated(countSimulated(dashboard).plantedAndVerified, dashboard.trees.plantedAndVerified);

/** One number that a page is about. */
export type Figure = {
  readonly kind: UnitField | "donations";
  readonly number: string;
  readonly label: string;
  readonly detail: string;
};

const ofMonth = (count: number): string =>
  count === 0 ? "None yet this month" : `${formatNumber(count)} this month`;

/** Returns whether a page may show units. Those of trees cannot be hidden. */
export const showsUnits = ({ sections }: Dashboard, field: UnitField): boolean =>
  field === "trees" || sections.has(field);

/** What was done with units. */
const VERBS = { tree: "registered", bottle: "rescued" } as const satisfies Record<Kind, string>;

/** Lists the kinds that a page has units of. */
export const listShownKinds = (dashboard: Dashboard): readonly Kind[] =>
  KINDS.filter((kind) => {
    const field = UNIT_FIELDS[kind];
    return dashboard[field].total > 0 && showsUnits(dashboard, field);
  });

const figureOf = (dashboard: Dashboard, kind: Kind): Figure => {
  const field = UNIT_FIELDS[kind];
  const { total, month } = dashboard[field];
  return {
    kind: field,
    number: formatNumber(total),
    label: `${nameUnits(kind, total)} ${VERBS[kind]}`,
    detail: ofMonth(month),
  };
};

/** Lists what there is to show, the most important first. */
export const listFigures = (dashboard: Dashboard): readonly Figure[] => [
  ...listShownKinds(dashboard).map((kind) => figureOf(dashboard, kind)),
  ...(dashboard.sections.has("donations")
    ? [
        {
          kind: "donations",
          number: formatCents(dashboard.donations.amountCents),
          label: "donated to charities",
          detail: `in ${counted(dashboard.donations.count, "donation")}`,
        } as const,
      ]
    : []),
];

/** Returns the one number that all formats are about; null if there is nothing to show. */
export const headlineOf = (dashboard: Dashboard): Figure | null =>
  listFigures(dashboard)[0] ?? null;

/** What formats say without data. What was refunded or is hidden may have been registered, so it is about trees only. */
export const NOTHING = "No trees are registered at the moment.";
