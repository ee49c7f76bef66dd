import { DomainError } from "../../../domain/errors.ts";
import { id } from "../../../domain/fields.ts";
import { evidenceSummary } from "../../../domain/planting/evidenceSummary.ts";
import { treeEvidence } from "../../../domain/planting/treeEvidence.ts";
import { readEvidenceSummary } from "../../../services/planting/readEvidenceSummary.ts";
import { readTreeEvidence } from "../../../services/planting/readTreeEvidence.ts";
import type { EvidenceDependencies } from "../../../services/planting/readTreeEvidence.ts";
import {
  evidenceStage,
  KEEPING_HEADERS,
  setEvidenceHeaders,
  STAGE_HEADERS,
  STAGE_MUST_BE,
} from "../../planting/evidenceAnswer.ts";
import { pathParameter } from "../../http/apiContext.ts";
import { textKeyEndpoint } from "../../http/endpoint.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { queryObject } from "../../http/parseRequest.ts";
import { KEY_ERROR, PARAMETER_ERROR } from "../errorResponses.ts";
import { EVIDENCE_EXAMPLES } from "./examples.ts";

const KEY_HEADERS = "Authorization";

const summaryEndpoint = (deps: EvidenceDependencies): Endpoint =>
  textKeyEndpoint({
    method: "get",
    path: "/evidence",
    description: {
      operationId: "readEvidenceSummary",
      tag: "evidence",
      summary: "Read what all organizations have planted",
      details:
        "Carbon and area are projected from the planted trees alone. The answer stays the same for 30 days.",
      responseHeaders: KEEPING_HEADERS,
      errors: [PARAMETER_ERROR, KEY_ERROR],
    },
    schemas: { response: evidenceSummary },
    examples: { response: EVIDENCE_EXAMPLES.summary },
    handle: async ({ ctx }) => {
      const { body, storedAt } = await readEvidenceSummary(deps);
      setEvidenceHeaders(ctx, {
        body,
        keyHeaders: KEY_HEADERS,
        isSimulated: false,
        isLasting: true,
        storedAt,
        now: deps.clock.now(),
      });
      return body;
    },
  });

const treeQuery = queryObject({
  evidence_stage: evidenceStage().meta({
    description: "For tests: pretends that the trees have reached this stage. Nothing is kept.",
  }),
});

const treeEndpoint = (deps: EvidenceDependencies): Endpoint =>
  textKeyEndpoint({
    method: "get",
    path: "/evidence/tree/:id",
    description: {
      operationId: "readTreeEvidence",
      tag: "evidence",
      summary: "Read the evidence of a tree registration",
      details:
        "The milestones of the registration's planting order. A partner that reports allocations makes four of them, " +
        "one that reports only verified planting sessions three. The answer is kept for 30 days or until the next " +
        "milestone.",
      pathParameters: { id: "The registration's id." },
      responseHeaders: STAGE_HEADERS,
      errors: [
        {
          code: "request_invalid",
          when: "evidence_stage is none of the stages.",
          example: `evidence_stage: ${STAGE_MUST_BE}`,
        },
        KEY_ERROR,
        {
          code: "record_not_found",
          when: "The organization has no such tree registration in the key's mode.",
          example: "failed to find tree",
        },
      ],
    },
    schemas: { query: treeQuery, response: treeEvidence },
    examples: { response: EVIDENCE_EXAMPLES.tree },
    handle: async ({ ctx, caller, query }) => {
      const registrationId = id().safeParse(pathParameter(ctx, "id"));
      if (!registrationId.success) {
        throw new DomainError("record_not_found", "failed to find tree");
      }
      const simulatedStage = query.evidence_stage ?? null;
      const { body, storedAt, isComplete } = await readTreeEvidence(deps, {
        accountId: caller.accountId,
        mode: caller.mode,
        id: registrationId.data,
        simulatedStage,
      });
      setEvidenceHeaders(ctx, {
        body,
        keyHeaders: KEY_HEADERS,
        isSimulated: simulatedStage !== null,
        isLasting: isComplete,
        storedAt,
        now: deps.clock.now(),
      });
      return body;
    },
  });

/** What is proven of one tree registration and of all together. */
export const evidenceEndpoints = (deps: EvidenceDependencies): readonly Endpoint[] => [
  summaryEndpoint(deps),
  treeEndpoint(deps),
];
