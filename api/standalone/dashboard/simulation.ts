import type { PartnerKind } from "../../../domain/planting/order.ts";
import type { Dashboard } from "../../../services/dashboard/readDashboard.ts";
import { formatNumber } from "./format.ts";

/** Whether what a partner tells of is made up. */
export const isSimulated = ({ partner }: { readonly partner: string }): boolean =>
  partner === ("simulated" satisfies PartnerKind);

/** How many of a dashboard's trees are planted and verified in a simulation only. */
export const countSimulated = ({
  sites,
}: Dashboard): { readonly planted: number; readonly plantedAndVerified: number } => {
  const simulated = sites.filter(isSimulated);
  return {
    planted: simulated.reduce((sum, { planted }) => sum + planted, 0),
    plantedAndVerified: simulated.reduce((sum, { verified }) => sum + verified, 0),
  };
};

/** What must stand behind a number of trees wherever it is shown; empty where all of them are real. */
export const markSimulated = (simulated: number, all: number): string => {
  if (simulated === 0) {
    return "";
  }
  return simulated === all ? " (simulated)" : ` (${formatNumber(simulated)} of them simulated)`;
};
