import { counted } from "../../../../domain/counted.ts";
import { formatCents } from "../../../../domain/money.ts";
import type { Dashboard } from "../../../../services/dashboard/readDashboard.ts";
import { formatNumber, nameUnits } from "./format.ts";

/** One number that a page is about. */
export type Figure = {
  readonly kind: "trees" | "bottles" | "donations";
  readonly number: string;
  readonly label: string;
  readonly detail: string;
};

const ofMonth = (count: number): string =>
  count === 0 ? "None yet this month" : `${formatNumber(count)} this month`;

/** Lists what there is to show, the most important first. */
export const listFigures = ({
  trees,
  bottles,
  donations,
  sections,
}: Dashboard): readonly Figure[] => [
  ...(trees.total > 0
    ? [
        {
          kind: "trees",
          number: formatNumber(trees.total),
          label: `${nameUnits("tree", trees.total)} registered`,
          detail: ofMonth(trees.month),
        } as const,
      ]
    : []),
  ...(sections.has("bottles")
    ? [
        {
          kind: "bottles",
          number: formatNumber(bottles.total),
          label: `${nameUnits("bottle", bottles.total)} rescued`,
          detail: ofMonth(bottles.month),
        } as const,
      ]
    : []),
  ...(sections.has("donations")
    ? [
        {
          kind: "donations",
          number: formatCents(donations.amountCents),
          label: "donated to charities",
          detail: `in ${counted(donations.count, "donation")}`,
        } as const,
      ]
    : []),
];

/** Returns the one number that all formats are about; null if there is nothing to show. */
export const headlineOf = (dashboard: Dashboard): Figure | null =>
  listFigures(dashboard)[0] ?? null;

/** What formats say without data. What was refunded or is hidden may have been registered, so it is about trees only. */
export const NOTHING = "No trees are registered at the moment.";
