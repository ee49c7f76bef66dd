import { z } from "zod";
import { MILESTONE_EVENTS, EVIDENCE_STAGES } from "../../modules/planting/timeline.rules.ts";
import { hash } from "node:crypto";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { responseObject, optional, wholeNumber } from "../http/parseRequest.ts";

/*
 * The tree evidence record of both interfaces. Coordinates are numbers except in planted_and_verified, where the contract
 * has strings.
 */

const registered = responseObject("RegisteredEvidence", {
  tree_id: z.string(),
  record_id: z.string(),
  registered_at: z.string(),
  count: z.int().min(1),
  fractional_count: z.number().min(0),
  attribution: z.string(),
});

const fundsDistributed = responseObject("FundsDistributedEvidence", {
  partner: z.string(),
  order_id: wholeNumber(),
  order_public_id: z.string(),
  tree_order_id: wholeNumber(),
  tree_order_public_id: z.string(),
  tree_amount: wholeNumber(),
  buyer_name: z.string(),
});

const allocation = responseObject("Allocation", {
  allocation_id: wholeNumber(),
  date_allocated: z.string(),
  planting_site: responseObject("PlantingSite", {
    id: wholeNumber(),
    name: z.string(),
    subsite_name: z.string(),
    organization_name: z.string(),
    latitude: z.number(),
    longitude: z.number(),
    main_image: z.string(),
  }),
  crew: responseObject("PlantingCrew", {
    leader: z.string(),
    style: z.string(),
    total_members: wholeNumber(),
    women_members: wholeNumber(),
  }),
});

const media = responseObject("PlantingMedium", {
  id: z.string(),
  type: z.string(),
  url: z.string(),
  thumbnail_url: z.string(),
  latitude: z.number(),
  longitude: z.number(),
});

const allocated = responseObject("AllocatedEvidence", {
  partner: z.string(),
  allocations: z.array(allocation),
});

const planted = responseObject("PlantedEvidence", {
  partner: z.string(),
  date_planted: z.string(),
  media: z.array(media),
});

const plantedAndVerified = responseObject("PlantedAndVerifiedEvidence", {
  partner: z.string(),
  planting_site_name: z.string(),
  subsite_name: z.string(),
  organization_name: z.string(),
  assessor_name: z.string(),
  verifier: z.string(),
  date_verified: z.string(),
  session_total_planted: wholeNumber(),
  species: z.array(z.string()),
  image_url: z.string(),
  allocation_id: wholeNumber(),
  field_update_id: wholeNumber(),
  planting_session_id: wholeNumber(),
  latitude: z.string(),
  longitude: z.string(),
  photos: z.array(z.string()),
});

const milestoneEvidence = z
  .union([registered, fundsDistributed, allocated, planted, plantedAndVerified])
  .meta({ id: "MilestoneEvidence" });

const milestone = z
  .strictObject({
    step: z.int().min(1),
    event: z.enum(MILESTONE_EVENTS),
    title: z.string(),
    status: z.enum(["pending", "completed"]),
    date: z.string().optional(),
    timestamp: z.string().optional(),
    description: z.string(),
    evidence: milestoneEvidence.optional(),
  })
  .meta({
    id: "Milestone",
    description: "A pending milestone has neither date nor timestamp nor evidence.",
  });
export type PresentedMilestone = z.output<typeof milestone>;

export const treeEvidence = responseObject("TreeEvidence", {
  tree_id: z.string(),
  record_id: z.string(),
  impact_type: z.literal("trees"),
  impact_provider: z.string(),
  imported_from: optional(
    z.string(),
    "The system that showed this evidence before the records were imported. Absent if the evidence was recorded here.",
  ),
  simulated: z
    .boolean()
    .describe(
      "True if no trees are planted for this evidence: test keys, the simulated planting partner and evidence_stage.",
    ),
  status: z.enum(MILESTONE_EVENTS),
  refunded: z.boolean().describe("True after the first refund, even a partial one."),
  refunded_count: wholeNumber().describe("Refunded units of the registration."),
  provider_meta: responseObject("ProviderMeta", {
    order_id: wholeNumber().optional(),
    public_id: z.string().optional(),
    allocation_id: wholeNumber().optional(),
    field_update_id: wholeNumber().optional(),
    planting_session_id: wholeNumber().optional(),
  }),
  timeline: z.array(milestone),
});
export type PresentedTreeEvidence = z.output<typeof treeEvidence>;

export const evidenceStage = () => oneOf(EVIDENCE_STAGES).optional();

export const EVIDENCE_HEADERS = {
  ETag: "Identifies this content. Send it as If-None-Match to get a 304 while nothing has changed.",
  "Cache-Control": "How long the response may be cached.",
  "Evidence-Simulated":
    "`true` if the response is simulated in whole or in part: no trees are planted for it.",
};

/** The contract's 30 days. */
const CACHE_SECONDS = 30 * 24 * 60 * 60;

/**
 * @param options.isOfStage the evidence is the response to `evidence_stage`, which nobody stores
 * @param options.isLasting clients may cache the response for 30 days; otherwise they must revalidate it
 */
export const renderEvidence = (
  ctx: RequestContext,
  presented: object,
  {
    isOfStage = false,
    isLasting,
    isSimulated,
  }: { readonly isOfStage?: boolean; readonly isLasting: boolean; readonly isSimulated: boolean },
): string => {
  const body = JSON.stringify(presented);
  ctx.status = 200;
  if (isOfStage) {
    ctx.set("Cache-Control", "no-store");
  } else {
    ctx.set("ETag", `"${hash("sha256", body, "base64url")}"`);
    ctx.set("Cache-Control", isLasting ? `private, max-age=${CACHE_SECONDS}` : "private, no-cache");
  }
  if (isSimulated) {
    ctx.set("Evidence-Simulated", "true");
  }
  return body;
};
