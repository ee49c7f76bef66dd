import { z } from "zod";
import { PLANTING_STAGES } from "./order.ts";

/*
 * The evidence of a tree registration as both interfaces answer it. Coordinates are numbers but for
 * planted_and_verified, where the contract has them as strings.
 */

const wholeNumber = z.int().min(0);

const registered = z.strictObject({
  tree_id: z.string(),
  record_id: z.string(),
  registered_at: z.string(),
  count: z.int().min(1),
  fractional_count: z.number().min(0),
  attribution: z.string(),
});

const fundsDistributed = z.strictObject({
  partner: z.string(),
  order_id: wholeNumber,
  order_public_id: z.string(),
  tree_order_id: wholeNumber,
  tree_order_public_id: z.string(),
  tree_amount: wholeNumber,
  buyer_name: z.string(),
});

const allocation = z.strictObject({
  allocation_id: wholeNumber,
  date_allocated: z.string(),
  planting_site: z.strictObject({
    id: wholeNumber,
    name: z.string(),
    subsite_name: z.string(),
    organization_name: z.string(),
    latitude: z.number(),
    longitude: z.number(),
    main_image: z.string(),
  }),
  crew: z.strictObject({
    leader: z.string(),
    style: z.string(),
    total_members: wholeNumber,
    women_members: wholeNumber,
  }),
});

const media = z.strictObject({
  id: z.string(),
  type: z.string(),
  url: z.string(),
  thumbnail_url: z.string(),
  latitude: z.number(),
  longitude: z.number(),
});

const allocated = z.strictObject({ partner: z.string(), allocations: z.array(allocation) });

const planted = z.strictObject({
  partner: z.string(),
  date_planted: z.string(),
  media: z.array(media),
});

const plantedAndVerified = z.strictObject({
  partner: z.string(),
  planting_site_name: z.string(),
  subsite_name: z.string(),
  organization_name: z.string(),
  assessor_name: z.string(),
  verifier: z.string(),
  date_verified: z.string(),
  session_total_planted: wholeNumber,
  species: z.array(z.string()),
  image_url: z.string(),
  allocation_id: wholeNumber,
  field_update_id: wholeNumber,
  planting_session_id: wholeNumber,
  latitude: z.string(),
  longitude: z.string(),
  photos: z.array(z.string()),
});

/** What an accepted fact of a stage shows; kept with the fact, addresses on this service as paths. */
export const stageEvidence = {
  allocated: allocated.omit({ partner: true }),
  planted: planted.omit({ partner: true }),
  planted_and_verified: plantedAndVerified.omit({ partner: true }),
};
export type AllocatedEvidence = z.output<typeof stageEvidence.allocated>;
export type PlantedEvidence = z.output<typeof stageEvidence.planted>;
export type VerifiedEvidence = z.output<typeof stageEvidence.planted_and_verified>;

const EVENTS = ["registered", ...PLANTING_STAGES] as const;
export type MilestoneEvent = (typeof EVENTS)[number];

/** What `evidence_stage` may ask for, earliest first. */
export const EVIDENCE_STAGES = [
  "registered",
  "funds_distributed",
  "planted",
  "planted_and_verified",
] as const satisfies readonly MilestoneEvent[];
export type EvidenceStage = (typeof EVIDENCE_STAGES)[number];

const milestone = z
  .strictObject({
    step: z.int().min(1),
    event: z.enum(EVENTS),
    title: z.string(),
    status: z.enum(["pending", "completed"]),
    date: z.string().optional(),
    timestamp: z.string().optional(),
    description: z.string(),
    evidence: z
      .union([registered, fundsDistributed, allocated, planted, plantedAndVerified])
      .optional(),
  })
  .meta({
    id: "Milestone",
    description: "A pending milestone has neither date nor timestamp nor evidence.",
  });
export type Milestone = z.output<typeof milestone>;

export const treeEvidence = z
  .strictObject({
    tree_id: z.string(),
    record_id: z.string(),
    impact_type: z.literal("trees"),
    impact_provider: z.string(),
    status: z.enum(EVENTS),
    provider_meta: z.strictObject({
      order_id: wholeNumber.optional(),
      public_id: z.string().optional(),
      allocation_id: wholeNumber.optional(),
      field_update_id: wholeNumber.optional(),
      planting_session_id: wholeNumber.optional(),
    }),
    timeline: z.array(milestone),
  })
  .meta({ id: "TreeEvidence" });
export type TreeEvidence = z.output<typeof treeEvidence>;
