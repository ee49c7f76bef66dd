import type { DatabasePool } from "slonik";
import { claimPlantings } from "../../db/planting/claims.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { TimelineShape } from "../../domain/planting/order.ts";
import { createTreeMapperPartner } from "./treemapper/createTreeMapperPartner.ts";
import type { TreeMapperAccess } from "./treemapper/readTreeMapper.ts";
import { createManualPartner } from "./createManualPartner.ts";
import type { PlantingPartner } from "./partner.ts";
import {
  createSimulatedPartner,
  SIMULATED_PARTNER_NAME,
} from "./simulated/createSimulatedPartner.ts";
import type { SimulatedDurations } from "./simulated/createSimulatedPartner.ts";

export type PlantingSettings = {
  readonly partner: PlantingPartner["kind"];
  /** What evidence calls the partner; null for the adapter's own name. */
  readonly partnerName: string | null;
  /** Null where no key is set. */
  readonly treeMapper: TreeMapperAccess | null;
  readonly simulated: { readonly timeline: TimelineShape; readonly durations: SimulatedDurations };
};

/** The partners that plant. */
export type Planting = {
  /** The partner that new orders of a mode go to: those of test keys never leave the simulation. */
  readonly partnerFor: (mode: Mode) => PlantingPartner;
  /** The adapter that an order was placed with; null when this deployment is not set up for it. */
  readonly findPartner: (kind: string) => PlantingPartner | null;
};

/** @throws TypeError when the partner needs a setting that is missing */
export const createPlanting = (
  db: DatabasePool,
  { partner, partnerName, treeMapper, simulated }: PlantingSettings,
): Planting => {
  const simulation = createSimulatedPartner({
    ...simulated,
    name: (partner === "simulated" ? partnerName : null) ?? SIMULATED_PARTNER_NAME,
  });
  const name = partnerName ?? "Planting partner";
  const manual = createManualPartner({ name, timeline: "allocations" });
  const partners = [
    simulation,
    manual,
    ...(treeMapper === null
      ? []
      : [
          createTreeMapperPartner({
            name,
            access: treeMapper,
            claim: (order, records) => claimPlantings(db, "treemapper", order, records),
          }),
        ]),
  ];
  const findPartner = (kind: string): PlantingPartner | null =>
    partners.find((candidate) => candidate.kind === kind) ?? null;
  const live = findPartner(partner);
  if (!live) {
    throw new TypeError(`The planting partner ${partner} is not set up.`);
  }
  return {
    partnerFor: (mode) => (mode === "test" ? simulation : live),
    findPartner,
  };
};
