import { z } from "zod";
import type { EvidenceSummary } from "../../modules/planting/createSummaryReader.ts";
import { absoluteUrl } from "./presentTreeEvidence.ts";

const wholeNumber = z.int().min(0);

const totals = z
  .strictObject({
    total_trees: wholeNumber.meta({ description: "Registered trees, without refunded ones." }),
    trees_planted: wholeNumber.meta({
      description: "Registered trees that a partner reports as planted.",
    }),
    trees_planted_simulated: wholeNumber.meta({
      description:
        "How many of trees_planted are simulated, which are planted nowhere: all or none.",
    }),
    carbon_offset_tons: z.number().min(0).meta({
      description: "Metric tons of CO2 that the planted trees are projected to store for life.",
    }),
    area_restored_hectares: z.number().min(0).meta({
      description: "Hectares that the planted trees are projected to cover.",
    }),
    countries: z.array(z.string()),
  })
  .meta({ id: "EvidenceTotals" });

const regionEvidence = z
  .strictObject({ id: z.string(), type: z.string(), url: z.string(), date: z.string() })
  .meta({ id: "RegionEvidence" });

const evidenceRegion = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    country: z.string(),
    simulated: z.boolean().meta({
      description: "Whether the region's trees are simulated.",
    }),
    evidence: z.array(regionEvidence),
  })
  .meta({ id: "EvidenceRegion" });

export const evidenceSummary = z
  .strictObject({ summary: totals, regions: z.array(evidenceRegion) })
  .meta({ id: "EvidenceSummary" });
export type PresentedEvidenceSummary = z.output<typeof evidenceSummary>;

/** Returns a region's id: its name in lower-case letters of any script with their marks, digits and dashes. */
const regionId = (country: string, region: string): string =>
  `${country}-${region}`
    .normalize()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{M}\p{N}]+/gu, "-");

const presentEvidenceSummary = (
  { registeredTrees, plantedTrees, isSimulated, projected, regions }: EvidenceSummary,
  baseUrl: string,
): PresentedEvidenceSummary => ({
  summary: {
    total_trees: registeredTrees,
    trees_planted: plantedTrees,
    trees_planted_simulated: isSimulated ? plantedTrees : 0,
    carbon_offset_tons: projected.carbonTons,
    area_restored_hectares: projected.areaHectares,
    countries: [...new Set(regions.map(({ country }) => country))],
  },
  regions: regions.map(({ region, country, media }) => ({
    id: regionId(country, region),
    name: region,
    country,
    simulated: isSimulated,
    evidence: media.map(({ id, type, url, date }) => ({
      id,
      type,
      url: absoluteUrl(url, baseUrl),
      date,
    })),
  })),
});

/** @param baseUrl the public URL of this service, without a slash at the end */
export const renderEvidenceSummary = (summary: EvidenceSummary, baseUrl: string): string =>
  JSON.stringify(presentEvidenceSummary(summary, baseUrl));
