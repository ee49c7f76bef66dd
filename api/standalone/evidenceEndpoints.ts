import { mustBeOneOf } from "../../runtime/describeIssues.rules.ts";
import { EVIDENCE_STAGES } from "../../modules/planting/timeline.rules.ts";
import { createCachedTreeLookup } from "../../modules/planting/createCachedTreeLookup.ts";
import { createSummaryReader } from "../../modules/planting/createSummaryReader.ts";
import { readTreeEvidence, simulateTreeEvidence } from "../../modules/planting/readTreeEvidence.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import {
  EVIDENCE_HEADERS,
  evidenceStage,
  setCacheHeaders,
  setStageHeaders,
  treeEvidence,
} from "../endpoints/treeEvidenceSchema.ts";
import { evidenceSummary, renderEvidenceSummary } from "../endpoints/presentEvidenceSummary.ts";
import { renderTreeEvidence } from "../endpoints/presentTreeEvidence.ts";
import { pathParameter } from "../http/requestContext.ts";
import { textKeyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { READ_ERROR } from "../http/errorResponses.ts";
import { queryObject } from "../http/parseRequest.ts";
import { KEY_ERROR } from "./standaloneErrors.ts";
import type { PresentedEvidenceSummary } from "../endpoints/presentEvidenceSummary.ts";
import type { PresentedTreeEvidence } from "../endpoints/treeEvidenceSchema.ts";

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const TREE_EXAMPLE: PresentedTreeEvidence = {
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

const SUMMARY_EXAMPLE: PresentedEvidenceSummary = {
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

const summaryEndpoint = (context: EvidenceContext): Endpoint => {
  const readSummary = createSummaryReader(context, renderEvidenceSummary);
  return textKeyEndpoint({
    method: "get",
    path: "/evidence",
    description: {
      operationId: "readEvidenceSummary",
      tag: "evidence",
      summary: "Read the evidence summary of all organizations",
      details:
        "The response stays the same for 30 days, or until more trees are planted. Carbon and area are projected from " +
        "planted trees only. If the planting partner is simulated, which it always is with a test key, the planted trees " +
        "are those of the simulation and are marked; otherwise none of them counts.",
      responseHeaders: EVIDENCE_HEADERS,
      errors: [KEY_ERROR, READ_ERROR],
    },
    schemas: { response: evidenceSummary },
    examples: { response: SUMMARY_EXAMPLE },
    handle: async ({ ctx, caller }) => {
      const response = await readSummary(caller.mode);
      // It is renewed when trees are planted, which may be at any time.
      setCacheHeaders(ctx, response, { isLasting: false, now: context.clock.now() });
      return response.body;
    },
  });
};

const treeQuery = queryObject({
  evidence_stage: evidenceStage().meta({
    description:
      "For tests, with any key: simulates that the trees have reached this stage. Nothing is stored, and all dates are that of the registration.",
  }),
});

const treeEndpoint = (context: EvidenceContext): Endpoint => {
  const findCachedTree = createCachedTreeLookup(context);
  return textKeyEndpoint({
    method: "get",
    path: "/evidence/tree/:id",
    description: {
      operationId: "readTreeEvidence",
      tag: "evidence",
      summary: "Read the evidence of a tree registration",
      details:
        "The timeline has four events if the planting partner reports allocations, and three steps if it reports only " +
        "verified planting sessions. The response is cached for 30 days or until the next milestone.",
      pathParameters: { id: "The registration's id." },
      responseHeaders: EVIDENCE_HEADERS,
      errors: [
        {
          code: "request_invalid",
          when: "evidence_stage is not one of the stages.",
          example: `evidence_stage: ${mustBeOneOf(EVIDENCE_STAGES)}`,
        },
        KEY_ERROR,
        {
          code: "record_not_found",
          when: "The organization has no such tree registration in the key's mode.",
          example: "failed to find tree",
        },
        READ_ERROR,
      ],
    },
    schemas: { query: treeQuery, response: treeEvidence },
    examples: { response: TREE_EXAMPLE },
    handle: async ({ ctx, caller, query }) => {
      const selection = {
        accountId: caller.accountId,
        mode: caller.mode,
        id: pathParameter(ctx, "id"),
      };
      if (query.evidence_stage !== undefined) {
        const evidence = await simulateTreeEvidence(context, selection, query.evidence_stage);
        setStageHeaders(ctx);
        return renderTreeEvidence(evidence, context.publicBaseUrl());
      }
      const response =
        (await findCachedTree(selection)) ??
        (await readTreeEvidence(context, selection, renderTreeEvidence));
      setCacheHeaders(ctx, response, {
        isLasting: response.isComplete,
        now: context.clock.now(),
      });
      return response.body;
    },
  });
};

export const evidenceEndpoints = (context: EvidenceContext): readonly Endpoint[] => [
  summaryEndpoint(context),
  treeEndpoint(context),
];
