import type { Config } from "../config/config.ts";
import type { PlantingSettings } from "../providers/planting/createPlanting.ts";

/** Who plants, as the configuration says. */
export const readPlantingSettings = (config: Config): PlantingSettings => ({
  partner: config.PLANTING_PARTNER,
  partnerName: config.PLANTING_PARTNER_NAME ?? null,
  simulated: {
    timeline: config.SIMULATED_PLANTING_TIMELINE,
    durations: {
      allocationMs: config.SIMULATED_ALLOCATION_SECONDS * 1000,
      plantingMs: config.SIMULATED_PLANTING_SECONDS * 1000,
      verificationMs: config.SIMULATED_VERIFICATION_SECONDS * 1000,
    },
  },
});
