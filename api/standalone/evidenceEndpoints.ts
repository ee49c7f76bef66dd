import { z } from "zod";
import { createEvidenceReader, readSharedSummary } from "../../modules/planting/readEvidence.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import {
  EVIDENCE_HEADERS,
  evidenceStage,
  renderEvidence,
  treeEvidence,
} from "../endpoints/treeEvidenceSchema.ts";
import { evidenceSummary, presentEvidenceSummary } from "../endpoints/presentEvidenceSummary.ts";
import { presentTreeEvidence } from "../endpoints/presentTreeEvidence.ts";
import { pathParameter } from "../http/requestContext.ts";
import { keyEndpoint } from "../http/endpoint.ts";

const treeQuery = z.object({
  evidence_stage: evidenceStage().describe(
    "For tests, with any key: simulates that the trees have reached this stage. Nothing is stored, and all dates are that of the registration.",
  ),
});

export const evidenceEndpoints = (context: EvidenceContext) => {
  const readEvidence = createEvidenceReader(context);
  return [
    keyEndpoint("get", "/evidence", {
      operationId: "readEvidenceSummary",
      tag: "evidence",
      summary: "Read the evidence summary of all organizations",
      details:
        "The response stays the same for 30 days, or until more trees are planted. Carbon and area are projected from " +
        "planted trees only. If the planting partner is simulated, which it always is with a test key, the planted trees " +
        "are those of the simulation and are marked; otherwise none of them counts.",
      responseHeaders: EVIDENCE_HEADERS,
      errors: ["query_timeout"],
      schemas: { response: evidenceSummary },
      handle: async ({ ctx, caller }) => {
        const summary = await readSharedSummary(context, caller.mode);
        // It is renewed when trees are planted, which may be at any time.
        return renderEvidence(ctx, presentEvidenceSummary(summary, context.publicBaseUrl()), {
          isLasting: false,
          isSimulated: summary.isSimulated,
        });
      },
    }),
    keyEndpoint("get", "/evidence/tree/:id", {
      operationId: "readTreeEvidence",
      tag: "evidence",
      summary: "Read the evidence of a tree registration",
      details:
        "The timeline has four events if the planting partner reports allocations, and three steps if it reports only " +
        "verified planting sessions. The response is cached for 30 days or until the next milestone.",
      pathParameters: { id: "The registration's id." },
      responseHeaders: EVIDENCE_HEADERS,
      errors: ["record_not_found", "query_timeout"],
      schemas: { query: treeQuery, response: treeEvidence },
      handle: async ({ ctx, owner, query: { evidence_stage: stage = null } }) => {
        const selection = { ...owner, id: pathParameter(ctx, "id") };
        const { evidence, isComplete } = await readEvidence(selection, stage);
        return renderEvidence(ctx, presentTreeEvidence(evidence, context.publicBaseUrl()), {
          isOfStage: stage !== null,
          isLasting: isComplete,
          isSimulated: evidence.isSimulated,
        });
      },
    }),
  ];
};
