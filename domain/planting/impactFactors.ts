/*
 * What a planted tree is projected to bind and how much ground it takes. docs/impact-factors.md explains each figure.
 */

/** Kind of forest that a site grows; a kind without a factor of its own takes the generic one. */
export const FOREST_TYPES = ["mangrove", "terrestrial"] as const;
export type ForestType = (typeof FOREST_TYPES)[number];

/** Mass and density belong together: a tree binds that much only where trees stand that close. */
export type ImpactFactor = {
  /** Never reused: planted trees keep the factor of their day. */
  readonly id: string;
  readonly forestType: ForestType;
  /** Kilograms of CO2 over the whole horizon, not per year. */
  readonly kgCo2PerTree: number;
  readonly horizonYears: number;
  readonly treesPerHectare: number;
  readonly basis: string;
  readonly source: { readonly title: string; readonly url: string };
  /** Trees planted from this instant on count by it. */
  readonly effectiveFrom: Date;
};

/** Only ever appended to: a changed figure is a new row with a later date. */
export const IMPACT_FACTORS: readonly ImpactFactor[] = [
  {
    id: "mangrove-1",
    forestType: "mangrove",
    kgCo2PerTree: 308,
    horizonYears: 25,
    treesPerHectare: 10_000,
    basis: "840 t of carbon per hectare at maturity, times 44/12, over 10,000 trees",
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
    basis:
      "lifetime of an average tree; 450 trees per acre as US forest projects plant (carbontrappers.org)",
    source: {
      title: "MoreApp: how CO2 compensation by trees is calculated",
      url: "https://help.moreapp.com",
    },
    effectiveFrom: new Date(0),
  },
];

/** The factor in force for a kind of forest at an instant. */
export const factorFor = (forestType: ForestType, instant: Date): ImpactFactor => {
  const factor = IMPACT_FACTORS.findLast(
    (candidate) => candidate.forestType === forestType && candidate.effectiveFrom <= instant,
  );
  if (factor === undefined) {
    throw new RangeError(`No impact factor for ${forestType} at ${instant.toISOString()}.`);
  }
  return factor;
};

/** What trees are projected to bind where nothing is known of their site, in kilograms of CO2. */
export const projectGenericCo2Kg = (trees: number, instant: Date): number =>
  trees * factorFor("terrestrial", instant).kgCo2PerTree;

/** Metric tons of CO2 and hectares. */
export type ProjectedImpact = { readonly carbonTons: number; readonly areaHectares: number };

/** Sums are kept to three decimals: kilograms, and a tenth of an are. */
const round = (value: number): number => Math.round(value * 1000) / 1000;

/**
 * Projects what planted trees bind and cover.
 * @param planted how many trees count by which factor
 */
export const projectImpact = (
  planted: readonly { readonly factorId: string; readonly trees: number }[],
): ProjectedImpact => {
  let carbonTons = 0;
  let areaHectares = 0;
  for (const { factorId, trees } of planted) {
    const factor = IMPACT_FACTORS.find(({ id }) => id === factorId);
    if (factor === undefined) {
      throw new RangeError(`Impact factor ${factorId} is not in the table.`);
    }
    carbonTons += (trees * factor.kgCo2PerTree) / 1000;
    areaHectares += trees / factor.treesPerHectare;
  }
  return { carbonTons: round(carbonTons), areaHectares: round(areaHectares) };
};
