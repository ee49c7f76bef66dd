import type { PresentedEvidenceSummary } from "../endpoints/presentEvidenceSummary.ts";
import type { PresentedTreeEvidence } from "../endpoints/treeEvidenceSchema.ts";

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const tree: PresentedTreeEvidence = {
  tree_id: ID,
  record_id: ID,
  impact_type: "trees",
  impact_provider: "North Coast Planting",
  simulated: false,
  refunded: false,
  refunded_count: 0,
  status: "funds_distributed",
  provider_meta: { order_id: 41, public_id: "po_0198c5df2b6a7d10b7c1a2d3e4f50617" },
  timeline: [
    {
      step: 1,
      event: "registered",
      title: "Registered",
      status: "completed",
      date: "2025-06-01",
      timestamp: "2025-06-01T12:00:00.000Z",
      description: "The trees are registered.",
      evidence: {
        tree_id: ID,
        record_id: ID,
        registered_at: "2025-06-01T12:00:00.000Z",
        count: 3,
        fractional_count: 0,
        attribution: "newsletter",
      },
    },
    {
      step: 2,
      event: "funds_distributed",
      title: "Funds distributed",
      status: "completed",
      date: "2025-06-02",
      timestamp: "2025-06-02T01:00:00.000Z",
      description: "The planting partner has the order and its funds.",
      evidence: {
        partner: "North Coast Planting",
        order_id: 41,
        order_public_id: "po_0198c5df2b6a7d10b7c1a2d3e4f50617",
        tree_order_id: 9120,
        tree_order_public_id: "to_0198c5de7c1f7b52a3a13f1f9a0c9e11",
        tree_amount: 3,
        buyer_name: "Example Organization",
      },
    },
    {
      step: 3,
      event: "allocated",
      title: "Allocated",
      status: "pending",
      description: "Planting sites and crews are not assigned yet.",
    },
    {
      step: 4,
      event: "planted",
      title: "Planted",
      status: "pending",
      description: "The trees are not planted yet.",
    },
  ],
};

const summary: PresentedEvidenceSummary = {
  summary: {
    total_trees: 1200,
    trees_planted: 800,
    trees_planted_simulated: 0,
    carbon_offset_tons: 246.4,
    area_restored_hectares: 0.08,
    countries: ["Kenya"],
  },
  regions: [
    {
      id: "kenya-kwale",
      name: "Kwale",
      country: "Kenya",
      simulated: false,
      evidence: [
        {
          id: "17",
          type: "photo",
          url: "https://photos.example/gazi.jpg",
          date: "2025-07-10",
        },
      ],
    },
  ],
};

/** The examples of the API description. */
export const EVIDENCE_EXAMPLES = { tree, summary };
