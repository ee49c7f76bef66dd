import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";

/** The duration of each stage of the simulated partner. */
export const STAGE_MS = 60_000;

export const createTestPlanting = ({
  partner = "simulated",
  timeline = "allocations",
}: {
  readonly partner?: "simulated" | "manual";
  readonly timeline?: TimelineShape;
} = {}): Planting =>
  createPlanting({
    treeMapper: null,
    partner,
    partnerName: "North Coast Planting",
    timeline,
    simulatedStepMs: STAGE_MS,
  });
