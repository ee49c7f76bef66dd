import type { Mode } from "../records/owner.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { createTreeMapperPartner } from "./treemapper/createTreeMapperPartner.ts";
import type { TreeMapperAccess, UnusableRecords } from "./treemapper/downloadRecords.ts";
import type { PlantingPartner } from "./partner.ts";
import {
  createSimulatedPartner,
  SIMULATED_PARTNER_NAME,
} from "./simulated/createSimulatedPartner.ts";
import type { Config } from "../../runtime/config/config.ts";
import { StartupError } from "../../runtime/errors.rules.ts";

export type PlantingSettings = {
  readonly partner: PlantingPartner["kind"];
  /** The partner's name in evidence; null for the adapter's default. */
  readonly partnerName: string | null;
  /** Null without an API key. */
  readonly treeMapper: TreeMapperAccess | null;
  /** What the manual and the simulated partner report. */
  readonly timeline: TimelineShape;
  /** The time that the simulated partner takes for each stage. */
  readonly simulatedStepMs: number;
};

/**
 * Returns the interval at which planting orders are created. Each run creates an order for every account with new trees,
 * and each order is polled for months: once a day is enough for a real partner, while a simulation should show results.
 */
export const plantingOrderIntervalMs = ({
  PLANTING_PARTNER,
  PLANTING_ORDER_INTERVAL_SECONDS,
}: Pick<Config, "PLANTING_PARTNER" | "PLANTING_ORDER_INTERVAL_SECONDS">): number =>
  1000 *
  (PLANTING_ORDER_INTERVAL_SECONDS ?? (PLANTING_PARTNER === "simulated" ? 60 : 24 * 60 * 60));

/**
 * Returns the settings of the planting partners.
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
    timeline: config.PLANTING_TIMELINE,
    simulatedStepMs: config.SIMULATED_PLANTING_SECONDS * 1000,
  };
};

export type Planting = {
  /** Returns the partner for new orders of a mode. Orders of test keys are always simulated. */
  readonly partnerFor: (mode: Mode) => PlantingPartner;
  /** Returns the adapter of an existing order; null if this deployment is not configured for it. */
  readonly findPartner: (kind: string) => PlantingPartner | null;
  /** Whether planted trees of the simulated partner count: only while it plants the trees of production keys. */
  readonly countsSimulated: () => boolean;
};

/** A partner without an API: an operator places the orders, and facts are reported by callback or by the operator. */
const createManualPartner = ({
  name,
  timeline,
}: {
  readonly name: string;
  readonly timeline: TimelineShape;
}): PlantingPartner => ({
  kind: "manual",
  name,
  timeline,
  isVerificationPolled: false,
  placeOrder: () => Promise.resolve(null),
  fetchUpdates: () => Promise.resolve({ facts: [], nextPollMs: null }),
});

/**
 * Creates the adapters of the planting partners.
 * @param onUnusable called after each download of TreeMapper's records if it has some that no order can use
 * @throws TypeError if the partner is TreeMapper and has no API key
 */
export const createPlanting = (
  { partner, partnerName, treeMapper, timeline, simulatedStepMs }: PlantingSettings,
  onUnusable: (unusable: UnusableRecords) => void = () => undefined,
): Planting => {
  const simulation = createSimulatedPartner({
    timeline,
    stepMs: simulatedStepMs,
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
