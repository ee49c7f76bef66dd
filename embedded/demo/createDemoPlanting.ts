import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";

const DAY_SECONDS = 24 * 60 * 60;

/** How long the simulated partner takes for each stage of the demo's trees, about as long as real planting. */
const DEMO_STEP_SECONDS = 40 * DAY_SECONDS;

/**
 * Defaults of the settings with which the demo goes on. With the usual ones, every order would be verified after three
 * minutes, and none would be left at the stages before.
 */
export const DEMO_SETTINGS: Readonly<Record<string, string>> = {
  SIMULATED_PLANTING_SECONDS: String(DEMO_STEP_SECONDS),
  PLANTING_ORDER_INTERVAL_SECONDS: String(DAY_SECONDS),
};

/** Returns the simulated partner, which takes as long as real planting. */
export const createDemoPlanting = ({
  partnerName = null,
  timeline = "allocations",
}: {
  readonly partnerName?: string | null;
  readonly timeline?: TimelineShape;
} = {}): Planting =>
  createPlanting({
    partner: "simulated",
    partnerName,
    treeMapper: null,
    timeline,
    simulatedStepMs: DEMO_STEP_SECONDS * 1000,
  });
