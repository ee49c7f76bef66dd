import type { Config } from "../config/config.ts";
import { StartupError } from "./startupError.ts";
import type { PlantingSettings } from "../providers/planting/createPlanting.ts";

/**
 * Who plants, as the configuration says.
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
