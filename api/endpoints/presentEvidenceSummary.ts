import { z } from "zod";
import { UNKNOWN_COUNTRY } from "../../modules/planting/fact.rules.ts";
import { projectImpact } from "../../modules/planting/impactFactors.rules.ts";
import type { Summary } from "../../modules/planting/summary.sql.ts";
import { absoluteUrl } from "./presentTreeEvidence.ts";
import { responseObject, wholeNumber } from "../http/parseRequest.ts";

const totals = responseObject("EvidenceTotals", {
  total_trees: wholeNumber().describe("Registered trees, without refunded ones."),
  trees_planted: wholeNumber().describe("Registered trees that a partner reports as planted."),
  trees_planted_simulated: wholeNumber().describe(
    "How many of trees_planted are simulated, which are planted nowhere: all or none.",
  ),
  carbon_offset_tons: z
    .number()
    .min(0)
    .describe("Metric tons of CO2 that the planted trees are projected to store for life."),
  area_restored_hectares: z
    .number()
    .min(0)
    .describe("Hectares that the planted trees are projected to cover."),
  countries: z.array(z.string()),
});

const regionEvidence = responseObject("RegionEvidence", {
  id: z.string(),
  type: z.string(),
  url: z.string(),
  date: z.string(),
});

const evidenceRegion = responseObject("EvidenceRegion", {
  id: z.string(),
  name: z.string(),
  country: z.string(),
  simulated: z.boolean().describe("Whether the region's trees are simulated."),
  evidence: z.array(regionEvidence),
});

export const evidenceSummary = responseObject("EvidenceSummary", {
  summary: totals,
  regions: z.array(evidenceRegion),
});

/** Returns a region's id: its name in lower-case letters of any script with their marks, digits and dashes. */
const regionId = (country: string, region: string): string =>
  `${country}-${region}`
    .normalize()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}]+/gu, "-");

/** @param baseUrl the public URL of this service, without a slash at the end */
export const presentEvidenceSummary = (
  { registeredTrees, planted, isSimulated, regions }: Summary & { readonly isSimulated: boolean },
  baseUrl: string,
): z.output<typeof evidenceSummary> => {
  const sum = planted.reduce((trees, part) => trees + part.trees, 0);
  const plantedTrees = Math.min(sum, Number.MAX_SAFE_INTEGER);
  const { carbonTons, areaHectares } = projectImpact(planted);
  return {
    summary: {
      total_trees: registeredTrees,
      trees_planted: plantedTrees,
      trees_planted_simulated: isSimulated ? plantedTrees : 0,
      carbon_offset_tons: carbonTons,
      area_restored_hectares: areaHectares,
      countries: [...new Set(regions.map(({ country }) => country))].filter(
        (country) => country !== UNKNOWN_COUNTRY,
      ),
    },
    regions: regions.map(({ region, country, media }) => ({
      id: regionId(country, region),
      name: region,
      country,
      simulated: isSimulated,
      evidence: media.map((medium) => ({ ...medium, url: absoluteUrl(medium.url, baseUrl) })),
    })),
  };
};
