import type { TimelineShape } from "../../runtime/config/plantingChoices.rules.ts";
import { createPlanting } from "../../modules/planting/createPlanting.ts";
import type { Planting } from "../../modules/planting/createPlanting.ts";
import { DEMO_DURATIONS } from "./demoPace.ts";

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
