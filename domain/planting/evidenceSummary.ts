import { z } from "zod";

const wholeNumber = z.int().min(0);

/** What all organizations together have planted. */
export const evidenceSummary = z
  .strictObject({
    summary: z.strictObject({
      total_trees: wholeNumber.meta({ description: "Registered trees, refunded ones left out." }),
      trees_planted: wholeNumber.meta({
        description: "Those of them that a partner reports as planted.",
      }),
      carbon_offset_tons: z.number().min(0).meta({
        description:
          "Metric tons of CO2 that the planted trees are projected to bind in their life.",
      }),
      area_restored_hectares: z.number().min(0).meta({
        description: "Hectares that the planted trees are projected to cover.",
      }),
      countries: z.array(z.string()),
    }),
    regions: z.array(
      z.strictObject({
        id: z.string(),
        name: z.string(),
        country: z.string(),
        evidence: z.array(
          z.strictObject({
            id: z.string(),
            type: z.string(),
            url: z.string(),
            date: z.string(),
          }),
        ),
      }),
    ),
  })
  .meta({ id: "EvidenceSummary" });
export type EvidenceSummary = z.output<typeof evidenceSummary>;

/** A region's id: what it is called, in lower-case letters of any script, digits and dashes. */
export const nameRegion = (country: string, region: string): string =>
  `${country}-${region}`.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "-");
