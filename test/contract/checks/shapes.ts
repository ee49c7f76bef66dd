import { z } from "zod";

/** The contract's resources. Further fields are allowed. */

const timestamp = z
  .string()
  .regex(
    /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})$/u,
    "not an ISO 8601 timestamp",
  );

const url = z.string().regex(/^https?:\/\/\S+$/u, "not a URL");

const freeObject = z.record(z.string(), z.unknown());

export const listedRegistration = z.looseObject({
  id: z.string().min(1),
  count: z.int().min(1),
  fractional_count: z.number().optional(),
  created_at: timestamp,
  idempotency_key: z.string(),
  metadata: freeObject,
  attribution: z.string(),
  refunded: z.boolean().optional(),
});

export const registration = listedRegistration.extend({
  fractional_count: z.number(),
  refunded: z.boolean(),
});

export const donation = z.looseObject({
  id: z.string().min(1),
  amount_cents: z.int().min(1),
  currency: z.literal("USD"),
  ein: z.string(),
  nonprofit_id: z.string(),
  charity_name: z.string().min(1),
  created_at: timestamp,
  idempotency_key: z.string().optional(),
  attribution: z.string().optional(),
  metadata: freeObject.optional(),
  refunded: z.boolean(),
});

export const charity = z.looseObject({
  nonprofit_id: z.string().min(1),
  name: z.string().min(1),
  ein: z.string(),
  description: z.string(),
  website: z.string(),
  icon_url: z.string(),
});

export const evidenceSummary = z.looseObject({
  summary: z.looseObject({
    total_trees: z.int(),
    trees_planted: z.int(),
    carbon_offset_tons: z.number(),
    area_restored_hectares: z.number(),
    countries: z.array(z.string()),
  }),
  regions: z.array(
    z.looseObject({
      id: z.string(),
      name: z.string(),
      country: z.string(),
      evidence: z.array(
        z.looseObject({
          id: z.string(),
          type: z.string(),
          url,
          date: z.string().regex(/^\d{4}-\d{2}-\d{2}/u),
        }),
      ),
    }),
  ),
});

const ALLOCATION = z.looseObject({
  allocation_id: z.int(),
  date_allocated: z.string(),
  planting_site: z.looseObject({
    id: z.union([z.string(), z.int()]),
    name: z.string(),
    subsite_name: z.string(),
    organization_name: z.string(),
    latitude: z.number(),
    longitude: z.number(),
    main_image: url,
  }),
  crew: z.looseObject({
    leader: z.string(),
    style: z.string(),
    total_members: z.int(),
    women_members: z.int(),
  }),
});

export const registeredEvidence = z.looseObject({
  tree_id: z.string(),
  record_id: z.string(),
  registered_at: timestamp,
  count: z.int(),
  fractional_count: z.number(),
  attribution: z.string(),
});

/** The evidence of a completed milestone by its event. */
export const EVIDENCE_SHAPES: Readonly<Record<string, z.ZodType>> = {
  registered: registeredEvidence,
  funds_distributed: z.looseObject({
    partner: z.string(),
    order_id: z.int(),
    order_public_id: z.string(),
    tree_order_id: z.int(),
    tree_order_public_id: z.string(),
    tree_amount: z.number(),
    buyer_name: z.string(),
  }),
  allocated: z.looseObject({ partner: z.string(), allocations: z.array(ALLOCATION).min(1) }),
  planted: z.looseObject({
    partner: z.string(),
    date_planted: z.string(),
    media: z.array(
      z.looseObject({
        id: z.union([z.string(), z.int()]),
        type: z.string(),
        url,
        thumbnail_url: url,
        latitude: z.number(),
        longitude: z.number(),
      }),
    ),
  }),
  planted_and_verified: z.looseObject({
    partner: z.string(),
    planting_site_name: z.string(),
    subsite_name: z.string(),
    organization_name: z.string(),
    assessor_name: z.string(),
    verifier: z.string(),
    date_verified: z.string(),
    session_total_planted: z.int(),
    species: z.array(z.string()),
    image_url: url,
    allocation_id: z.int(),
    field_update_id: z.int(),
    planting_session_id: z.int(),
    latitude: z.string(),
    longitude: z.string(),
    photos: z.array(url),
  }),
};

const milestone = z.looseObject({
  step: z.int().min(1),
  event: z.string(),
  status: z.enum(["pending", "completed"]),
  date: z.string().optional(),
  timestamp: timestamp.optional(),
  title: z.string().optional(),
  description: z.string().optional(),
  evidence: freeObject.optional(),
});
export type Milestone = z.output<typeof milestone>;

export const treeEvidence = z.looseObject({
  tree_id: z.string(),
  record_id: z.string(),
  impact_type: z.string().min(1),
  impact_provider: z.string().min(1),
  status: z.string().min(1),
  provider_meta: z.looseObject({
    order_id: z.int().optional(),
    public_id: z.string().optional(),
    allocation_id: z.int().optional(),
    field_update_id: z.int().optional(),
    planting_session_id: z.int().optional(),
  }),
  timeline: z.array(milestone.extend({ title: z.string(), description: z.string() })),
});

export const storeEvidence = treeEvidence.omit({ status: true, provider_meta: true }).extend({
  created_at: timestamp,
  region: z.string(),
  evidence_count: z.int().min(0),
  timeline: z.array(milestone),
});

export const storeRecord = z.looseObject({
  id: z.string().min(1),
  count: z.int().min(1),
  customer_name: z.string(),
  order_id: z.string(),
  created_at: timestamp,
});
