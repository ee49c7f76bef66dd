import type { Mode } from "../../domain/accounts.ts";
import type { TimelineShape } from "../../domain/planting.ts";
import { createManualPartner } from "./createManualPartner.ts";
import type { PlantingPartner } from "./partner.ts";
import { createSimulatedPartner } from "./simulated/createSimulatedPartner.ts";
import type { SimulatedDurations } from "./simulated/createSimulatedPartner.ts";

export type PlantingSettings = {
  readonly partner: PlantingPartner["kind"];
  /** What evidence calls the partner; null for the adapter's own name. */
  readonly partnerName: string | null;
  readonly simulated: { readonly timeline: TimelineShape; readonly durations: SimulatedDurations };
};

/** Who plants. */
export type Planting = {
  /** Whom new orders of a mode go to: those of test keys never leave the simulation. */
  readonly partnerFor: (mode: Mode) => PlantingPartner;
  /** The adapter that an order was placed with; null when this deployment is not set up for it. */
  readonly findPartner: (kind: string) => PlantingPartner | null;
};

export const createPlanting = ({ partner, partnerName, simulated }: PlantingSettings): Planting => {
  const simulation = createSimulatedPartner({
    ...simulated,
    name: (partner === "simulated" ? partnerName : null) ?? "Simulated planting partner",
  });
  const manual = createManualPartner({
    name: partnerName ?? "Planting partner",
    timeline: "allocations",
  });
  const partners = [simulation, manual];
  const live = partner === "simulated" ? simulation : manual;
  return {
    partnerFor: (mode) => (mode === "test" ? simulation : live),
    findPartner: (kind) => partners.find((candidate) => candidate.kind === kind) ?? null,
  };
};
