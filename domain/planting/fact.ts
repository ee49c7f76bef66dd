import { z } from "zod";
import { text } from "../fields.ts";
import { FOREST_TYPES } from "./impactFactors.ts";

/*
 * What a partner, its callback or an operator reports of an order, field by field. Nothing unknown is let in: what is
 * misspelt here would be missing from somebody's proof.
 */

const NAME = 200;

/** What a person or a thing is called. */
export const name = () => text(NAME).refine((value) => value.trim() !== "", "must not be empty");

/** What partners call their own things. */
const reference = () => name();

/** However it is written, an instant is kept in one form, so that a repetition is known as one. */
const instant = () =>
  z.iso
    .datetime({ offset: true, error: "must be an instant such as 2026-05-01T12:00:00Z" })
    .transform((value) => new Date(value).toISOString());

/** An address that a page may link to, or a path on this service. */
export const address = () =>
  text(2000).refine(
    (value) => /^\/(?!\/)/u.test(value) || (URL.canParse(value) && /^https?:\/\//u.test(value)),
    "must be an http:// or https:// address",
  );

const latitude = () => z.number().min(-90).max(90);
const longitude = () => z.number().min(-180).max(180);

const site = z.strictObject({
  reference: reference(),
  name: name(),
  subsite_name: text(NAME).default(""),
  organization_name: name(),
  region: name(),
  country: name(),
  forest_type: z.enum(FOREST_TYPES).default("terrestrial"),
  latitude: latitude(),
  longitude: longitude(),
  main_image: z.union([z.literal(""), address()]).default(""),
});

const crew = z
  .strictObject({
    leader: text(NAME),
    style: text(NAME),
    total_members: z.int().min(0).max(100_000),
    women_members: z.int().min(0).max(100_000),
  })
  .refine(
    ({ total_members: total, women_members: women }) => women <= total,
    "women_members must not exceed total_members",
  );

const fundsDistributed = z.strictObject({
  stage: z.literal("funds_distributed"),
  occurred_at: instant(),
  partner_reference: reference(),
});

const allocated = z.strictObject({
  stage: z.literal("allocated"),
  occurred_at: instant(),
  allocations: z
    .array(
      z.strictObject({
        reference: reference(),
        date_allocated: instant(),
        /** Trees of the order at this site; only the proportion to the others counts. */
        trees: z.int().min(1).default(1),
        planting_site: site,
        crew,
      }),
    )
    .min(1)
    .max(100)
    .refine(
      (allocations) =>
        new Set(allocations.map((entry) => entry.reference)).size === allocations.length,
      "each reference must occur once",
    ),
});

const planted = z.strictObject({
  stage: z.literal("planted"),
  occurred_at: instant(),
  media: z
    .array(
      z.strictObject({
        reference: reference(),
        type: z.enum(["photo", "image", "video"]),
        url: address(),
        thumbnail_url: address(),
        latitude: latitude(),
        longitude: longitude(),
      }),
    )
    .max(100),
});

const plantedAndVerified = z.strictObject({
  stage: z.literal("planted_and_verified"),
  occurred_at: instant(),
  planting_session_reference: reference(),
  field_update_reference: reference(),
  /** The session's own name stands in where the partner does not report allocations. */
  allocation_reference: reference().optional(),
  planting_site: site,
  assessor_name: name(),
  verifier: name(),
  session_total_planted: z.int().min(1),
  species: z.array(name()).min(1).max(200),
  image_url: address(),
  latitude: latitude(),
  longitude: longitude(),
  photos: z.array(address()).max(100),
});

/** One milestone of one order as it is reported. */
export const plantingFact = z.discriminatedUnion("stage", [
  fundsDistributed,
  allocated,
  planted,
  plantedAndVerified,
]);
export type PlantingFact = z.output<typeof plantingFact>;
export type PlantingFactOf<Stage extends PlantingFact["stage"]> = Extract<
  PlantingFact,
  { stage: Stage }
>;
export type ReportedSite = z.output<typeof site>;

/** What an operator's file and a partner's callback hold: facts of one order. */
export const plantingReport = z.strictObject({
  /** The order's public id. */
  order: text(100),
  facts: z.array(plantingFact).min(1).max(20),
});
