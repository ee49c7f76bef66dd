import type { Config } from "../config/config.ts";
import { StartupError } from "./startupError.ts";
import type { PlantingSettings } from "../providers/planting/createPlanting.ts";

/**
 * How long trees wait before they are ordered. Each account with new trees makes an order then, which is followed for
 * months: one a day is enough for a real partner, while the simulated one is there to be looked at.
 */
export const plantingOrderIntervalMs = ({
  PLANTING_PARTNER,
  PLANTING_ORDER_INTERVAL_SECONDS,
}: Pick<Config, "PLANTING_PARTNER" | "PLANTING_ORDER_INTERVAL_SECONDS">): number =>
  1000 *
  (PLANTING_ORDER_INTERVAL_SECONDS ?? (PLANTING_PARTNER === "simulated" ? 60 : 24 * 60 * 60));

/** A look that fails is tried again after ten minutes at most: below that, silence says nothing. */
const SHORTEST_SILENCE_MS = 30 * 60 * 1000;

/** After how long without a look an order's workflow counts as lost: three looks that did not happen. */
export const plantingSilenceMs = ({
  PLANTING_POLL_INTERVAL_SECONDS,
}: Pick<Config, "PLANTING_POLL_INTERVAL_SECONDS">): number =>
  Math.max(3 * PLANTING_POLL_INTERVAL_SECONDS * 1000, SHORTEST_SILENCE_MS);

/**
 * Which partner plants, as the configuration says.
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
