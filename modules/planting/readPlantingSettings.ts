import type { Config } from "../../runtime/config/config.ts";
import { StartupError } from "../../runtime/errors.rules.ts";
import type { PlantingSettings } from "./createPlanting.ts";

/**
 * Returns the interval at which planting orders are created. Each run creates an order for every account with new trees,
 * and each order is polled for months: once a day is enough for a real partner, while a simulation should show results.
 */
export const plantingOrderIntervalMs = ({
  PLANTING_PARTNER,
  PLANTING_ORDER_INTERVAL_SECONDS,
}: Pick<Config, "PLANTING_PARTNER" | "PLANTING_ORDER_INTERVAL_SECONDS">): number =>
  1000 *
  (PLANTING_ORDER_INTERVAL_SECONDS ?? (PLANTING_PARTNER === "simulated" ? 60 : 24 * 60 * 60));

/**
 * Returns the settings of the planting partners.
 * @throws StartupError when the partner needs a key that is not set
 */
export const readPlantingSettings = (config: Config): PlantingSettings => {
  if (config.PLANTING_PARTNER === "treemapper" && config.TREEMAPPER_API_KEY === undefined) {
    throw new StartupError(
      "PLANTING_PARTNER is treemapper, but TREEMAPPER_API_KEY is not set. Set it to the key of the planting project.",
    );
  }
  return {
    partner: config.PLANTING_PARTNER,
    partnerName: config.PLANTING_PARTNER_NAME ?? null,
    treeMapper:
      config.TREEMAPPER_API_KEY === undefined
        ? null
        : { apiKey: config.TREEMAPPER_API_KEY, apiBase: config.TREEMAPPER_API_BASE },
    manual: { timeline: config.MANUAL_PLANTING_TIMELINE },
    simulated: {
      timeline: config.SIMULATED_PLANTING_TIMELINE,
      durations: {
        allocationMs: config.SIMULATED_ALLOCATION_SECONDS * 1000,
        plantingMs: config.SIMULATED_PLANTING_SECONDS * 1000,
        verificationMs: config.SIMULATED_VERIFICATION_SECONDS * 1000,
      },
    },
  };
};
