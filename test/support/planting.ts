import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";

/** The duration of each stage of the simulated partner. */
export const STAGE_MS = 60_000;

export const createTestPlanting = ({
  partner = "simulated",
  timeline = "allocations",
  stageMs = STAGE_MS,
}: {
  readonly partner?: "simulated" | "manual";
  readonly timeline?: TimelineShape;
  readonly stageMs?: number;
} = {}): Planting =>
  createPlanting({
    PLANTING_PARTNER: partner,
    PLANTING_PARTNER_NAME: "North Coast Planting",
    PLANTING_TIMELINE: timeline,
    SIMULATED_PLANTING_SECONDS: stageMs / 1000,
    TREEMAPPER_API_BASE: "",
  });
