import { mustExist } from "../../runtime/errors.rules.ts";

// The carbon that a planted tree is projected to store and the area that it covers. docs/evidence.md explains each figure.

/** Partners report unknown types of forest as terrestrial. */
export const FOREST_TYPES = ["mangrove", "terrestrial"] as const;
export type ForestType = (typeof FOREST_TYPES)[number];

/** Mass and density belong together: a tree stores this much only at this density. */
type ImpactFactor = {
  /** Never reused: planted trees keep their factor. */
  readonly id: string;
  readonly forestType: ForestType;
  /** Kilograms of CO2 over the whole horizon, not per year. */
  readonly kgCo2PerTree: number;
  readonly horizonYears: number;
  readonly treesPerHectare: number;
  readonly source: { readonly title: string; readonly url: string };
  /** Applies to trees planted from this time on. */
  readonly effectiveFrom: Date;
};

/** Append-only: a changed figure is a new row with a later date. */
export const IMPACT_FACTORS: readonly ImpactFactor[] = [
  {
    id: "mangrove-1",
    forestType: "mangrove",
    kgCo2PerTree: 308,
    horizonYears: 25,
    treesPerHectare: 10_000,
    source: {
      title: "Climate Responsible: mangrove life-cycle assessment",
      url: "https://climateresponsible.com/pages/mangrove-lca",
    },
    effectiveFrom: new Date(0),
  },
  {
    id: "terrestrial-1",
    forestType: "terrestrial",
    kgCo2PerTree: 200,
    horizonYears: 20,
    treesPerHectare: 1112,
    source: {
      title: "MoreApp: how CO2 compensation by trees is calculated",
      url: "https://help.moreapp.com",
    },
    effectiveFrom: new Date(0),
  },
];

export const factorFor = (forestType: ForestType, at: Date): ImpactFactor =>
  mustExist(
    IMPACT_FACTORS.findLast(
      (candidate) => candidate.forestType === forestType && candidate.effectiveFrom <= at,
    ),
    `No impact factor for ${forestType} at that time.`,
  );

export const projectGenericCo2Kg = (trees: number, at: Date): number =>
  trees * factorFor("terrestrial", at).kgCo2PerTree;

/** Rounds to three decimals: kilograms, and tens of square meters. */
const round = (value: number): number => Math.round(value * 1000) / 1000;

/** Returns metric tons of CO2 and hectares. */
export const projectImpact = (
  planted: readonly { readonly factorId: string; readonly trees: number }[],
) => {
  let carbonTons = 0;
  let areaHectares = 0;
  for (const { factorId, trees } of planted) {
    const factor = mustExist(
      IMPACT_FACTORS.find(({ id }) => id === factorId),
      `Impact factor ${factorId} is not in the table.`,
    );
    carbonTons += (trees * factor.kgCo2PerTree) / 1000;
    areaHectares += trees / factor.treesPerHectare;
  }
  return { carbonTons: round(carbonTons), areaHectares: round(areaHectares) };
};
