import { isSimulated } from "../../modules/planting/order.rules.ts";
import type { Dashboard } from "../../modules/dashboard/readDashboard.ts";
import { formatNumber } from "../pages/format.ts";

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
