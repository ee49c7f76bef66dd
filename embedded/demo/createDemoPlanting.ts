import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";

const DAY_SECONDS = 24 * 60 * 60;

/** How long the simulated partner takes for the demo's trees: as long as real planting. */
const DEMO_DURATIONS = {
  allocationMs: 12 * DAY_SECONDS * 1000,
  plantingMs: 35 * DAY_SECONDS * 1000,
  verificationMs: 80 * DAY_SECONDS * 1000,
} as const;

/**
 * Defaults of the settings with which the demo goes on. With the usual ones, every order would be verified after three
 * minutes, and none would be left at the stages before.
 */
export const DEMO_SETTINGS: Readonly<Record<string, string>> = {
  SIMULATED_ALLOCATION_SECONDS: String(DEMO_DURATIONS.allocationMs / 1000),
  SIMULATED_PLANTING_SECONDS: String(DEMO_DURATIONS.plantingMs / 1000),
  SIMULATED_VERIFICATION_SECONDS: String(DEMO_DURATIONS.verificationMs / 1000),
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
    manual: { timeline },
    simulated: { timeline, durations: DEMO_DURATIONS },
  });
