import type { Mode } from "../records/owner.rules.ts";
import { createTreeMapperPartner } from "./treemapper/createTreeMapperPartner.ts";
import type { PlantingPartner } from "./partner.ts";
import {
  createSimulatedPartner,
  SIMULATED_PARTNER_NAME,
} from "./simulated/createSimulatedPartner.ts";
import type { LeftOut } from "../../runtime/splitReadable.ts";
import type { Config } from "../../runtime/config/config.ts";
import { StartupError } from "../../runtime/errors.rules.ts";

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

export type Planting = {
  /** Returns the partner for new orders of a mode. Orders of test keys are always simulated. */
  readonly partnerFor: (mode: Mode) => PlantingPartner;
  /** Returns the adapter of an existing order; null if this deployment is not configured for it. */
  readonly findPartner: (kind: string) => PlantingPartner | null;
};

/**
 * @param onUnusable called after each download of TreeMapper's records if it has some that no order can use
 * @throws StartupError if the partner is TreeMapper and has no API key
 */
export const createPlanting = (
  config: Pick<
    Config,
    | "PLANTING_PARTNER"
    | "PLANTING_PARTNER_NAME"
    | "PLANTING_TIMELINE"
    | "SIMULATED_PLANTING_SECONDS"
    | "TREEMAPPER_API_BASE"
    | "TREEMAPPER_API_KEY"
  >,
  onUnusable: (unusable: LeftOut) => void = () => undefined,
): Planting => {
  const { PLANTING_PARTNER: partner, PLANTING_TIMELINE: timeline } = config;
  const { TREEMAPPER_API_KEY: apiKey, TREEMAPPER_API_BASE: apiBase } = config;
  const name = config.PLANTING_PARTNER_NAME ?? "Planting partner";
  const simulation = createSimulatedPartner(
    (partner === "simulated" ? config.PLANTING_PARTNER_NAME : null) ?? SIMULATED_PARTNER_NAME,
    timeline,
    config.SIMULATED_PLANTING_SECONDS * 1000,
  );
  /** Has no API: an operator places the orders, and facts are reported by callback or by the operator. */
  const manual: PlantingPartner = {
    kind: "manual",
    name,
    timeline,
    isVerificationPolled: false,
    placeOrder: () => Promise.resolve(null),
    fetchUpdates: () => Promise.resolve({ facts: [], nextPollMs: null }),
  };
  const treeMapper =
    apiKey === undefined ? [] : [createTreeMapperPartner(name, { apiKey, apiBase }, onUnusable)];
  const findPartner = (kind: string): PlantingPartner | null =>
    [simulation, manual, ...treeMapper].find((candidate) => candidate.kind === kind) ?? null;
  const live = findPartner(partner);
  if (!live) {
    throw new StartupError(
      "PLANTING_PARTNER is treemapper, but TREEMAPPER_API_KEY is not set. Set it to the key of the planting project.",
    );
  }
  return { partnerFor: (mode) => (mode === "test" ? simulation : live), findPartner };
};
