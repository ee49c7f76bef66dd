import { z } from "zod";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { text } from "../records/fields.rules.ts";
import { FOREST_TYPES } from "./impactFactors.rules.ts";

/*
 * The facts that a partner, its callback or an operator reports about an order. Unknown fields of a fact are rejected,
 * because a misspelt one would be missing from the proof.
 */

const NAME = 200;

export const name = () => text(NAME).refine((value) => value.trim() !== "", "must not be empty");

/** How names of places are compared: whether accents are combining characters, and white space, make no difference. */
export const normalizePlace = (given: string): string =>
  given.normalize().trim().replaceAll(/\s+/gu, " ");

/** The country of a site whose partner does not report it. */
export const UNKNOWN_COUNTRY = "unknown";

/** The crew of an allocation whose partner reports none. */
export const NO_CREW = { leader: "", style: "", total_members: 0, women_members: 0 };

/** The name of a region or a country, by which the summary groups. */
const place = () => name().transform(normalizePlace).pipe(name());

const reference = () => name();

/**
 * Normalized to UTC, so that a repeated fact is recognized however its time is written. No impact factor applies before
 * 1970, and years without four digits, whose texts begin with a sign, are stored nowhere.
 */
const timestamp = () =>
  z.iso
    .datetime({ offset: true, error: "must be a timestamp such as 2026-05-01T12:00:00Z" })
    .transform((value) => new Date(value).toISOString())
    .refine((value) => value >= "1970", "must be a time in the years 1970 to 9999");

/** Hosts that a Content-Security-Policy can name. Others are valid in URLs, but may contain what separates its directives. */
const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:]+\])$/u;

/** Returns the origin of an http:// or https:// URL that a page may load pictures from, or null. */
export const pictureOrigin = (given: string): string | null => {
  const url = /^https?:\/\//u.test(given) ? URL.parse(given) : null;
  return url && HOST.test(url.hostname) ? url.origin : null;
};

/** A URL that a page may link to and load pictures from, or a path on this service. */
export const link = () =>
  text(2000).refine(
    (value) => /^\/(?!\/)/u.test(value) || pictureOrigin(value) !== null,
    "must be an http:// or https:// URL",
  );

const latitude = () => z.number().min(-90).max(90);
const longitude = () => z.number().min(-180).max(180);

const site = z.strictObject({
  reference: reference(),
  name: name(),
  subsite_name: text(NAME).default(""),
  organization_name: name(),
  region: place(),
  country: place(),
  forest_type: z.enum(FOREST_TYPES).default("terrestrial"),
  latitude: latitude(),
  longitude: longitude(),
  main_image: z
    .union([z.literal(""), link()], { error: "must be an http:// or https:// URL, or empty" })
    .default(""),
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
  occurred_at: timestamp(),
  partner_reference: reference(),
});

const allocated = z.strictObject({
  stage: z.literal("allocated"),
  occurred_at: timestamp(),
  allocations: z
    .array(
      z.strictObject({
        reference: reference(),
        date_allocated: timestamp(),
        /** Trees of the order at this site; only the proportion to the other allocations matters. */
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
  occurred_at: timestamp(),
  /** The order's own if absent, as field_update_reference. */
  planting_session_reference: reference().optional(),
  field_update_reference: reference().optional(),
  media: z
    .array(
      z.strictObject({
        reference: reference(),
        type: z.enum(["photo", "image", "video"]),
        url: link(),
        thumbnail_url: link(),
        latitude: latitude(),
        longitude: longitude(),
      }),
    )
    .max(100),
});

const plantedAndVerified = z.strictObject({
  stage: z.literal("planted_and_verified"),
  occurred_at: timestamp(),
  planting_session_reference: reference(),
  field_update_reference: reference(),
  /** The session's reference if absent. */
  allocation_reference: reference().optional(),
  planting_site: site,
  assessor_name: name(),
  verifier: name(),
  session_total_planted: z.int().min(1),
  species: z.array(name()).min(1).max(200),
  image_url: link(),
  latitude: latitude(),
  longitude: longitude(),
  photos: z.array(link()).max(100),
});

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

export const acceptedFacts = z.strictObject({
  funds_distributed: fundsDistributed.optional(),
  allocated: allocated.optional(),
  planted: planted.optional(),
  planted_and_verified: plantedAndVerified.optional(),
});
export type AcceptedFacts = Readonly<z.output<typeof acceptedFacts>>;

/** Clocks and time zones differ. A fact that is dated further ahead has not happened. */
const LEAD_MS = DAY_MS;

export const findFutureProblem = (fact: PlantingFact, now: Date): string | null => {
  const isAhead = (time: string): boolean => new Date(time).getTime() > now.getTime() + LEAD_MS;
  if (isAhead(fact.occurred_at)) {
    return `${fact.stage}: occurred_at is in the future`;
  }
  return fact.stage === "allocated" &&
    fact.allocations.some(({ date_allocated: allocatedAt }) => isAhead(allocatedAt))
    ? `${fact.stage}: date_allocated is in the future`
    : null;
};

/** Returns the sites that a fact names, in the order in which they are stored. */
export const sitesOf = (fact: PlantingFact): readonly ReportedSite[] => {
  if (fact.stage === "allocated") {
    return fact.allocations.map(({ planting_site: named }) => named);
  }
  return fact.stage === "planted_and_verified" ? [fact.planting_site] : [];
};

/** The content of a callback or of an operator's file: facts of one order. */
export const plantingReport = z.object({
  /** The order's public id. */
  order: text(100),
  facts: z.array(plantingFact).min(1).max(20),
});
export type PlantingReport = z.output<typeof plantingReport>;
