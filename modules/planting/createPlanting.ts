import type { Mode } from "../records/owner.rules.ts";
import type { TimelineShape } from "../../runtime/config/plantingChoices.rules.ts";
import { createTreeMapperPartner } from "./treemapper/createTreeMapperPartner.ts";
import type { UnusableRecords } from "./treemapper/downloadRecords.ts";
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
  /** The partner's name in evidence; null for the adapter's default. */
  readonly partnerName: string | null;
  /** Null without an API key. */
  readonly treeMapper: TreeMapperAccess | null;
  /** What operators report. */
  readonly manual: { readonly timeline: TimelineShape };
  readonly simulated: { readonly timeline: TimelineShape; readonly durations: SimulatedDurations };
};

export type Planting = {
  /** Returns the partner for new orders of a mode. Orders of test keys are always simulated. */
  readonly partnerFor: (mode: Mode) => PlantingPartner;
  /** Returns the adapter of an existing order; null if this deployment is not configured for it. */
  readonly findPartner: (kind: string) => PlantingPartner | null;
  /** Whether planted trees of the simulated partner count: only while it plants the trees of production keys. */
  readonly countsSimulated: () => boolean;
};

/**
 * Creates the adapters of the planting partners.
 * @param onUnusable called after each download of TreeMapper's records if it has some that no order can use
 * @throws TypeError if the partner is TreeMapper and has no API key
 */
export const createPlanting = (
  { partner, partnerName, treeMapper, manual: { timeline }, simulated }: PlantingSettings,
  onUnusable: (unusable: UnusableRecords) => void = () => undefined,
): Planting => {
  const simulation = createSimulatedPartner({
    ...simulated,
    name: (partner === "simulated" ? partnerName : null) ?? SIMULATED_PARTNER_NAME,
  });
  const name = partnerName ?? "Planting partner";
  const manual = createManualPartner({ name, timeline });
  const partners = [
    simulation,
    manual,
    ...(treeMapper === null
      ? []
      : [createTreeMapperPartner({ name, access: treeMapper, onUnusable })]),
  ];
  const findPartner = (kind: string): PlantingPartner | null =>
    partners.find((candidate) => candidate.kind === kind) ?? null;
  const live = findPartner(partner);
  if (!live) {
    throw new TypeError(`The planting partner ${partner} is not configured.`);
  }
  return {
    partnerFor: (mode) => (mode === "test" ? simulation : live),
    findPartner,
    countsSimulated: () => live === simulation,
  };
};
