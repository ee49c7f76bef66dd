import { hash } from "node:crypto";
import { z } from "zod";
import { DomainError } from "../../../domain/errors.ts";
import { id } from "../../../domain/fields.ts";
import { evidenceSummary } from "../../../domain/evidenceSummary.ts";
import { EVIDENCE_STAGES, treeEvidence } from "../../../domain/treeEvidence.ts";
import { readEvidenceSummary } from "../../../services/readEvidenceSummary.ts";
import { EVIDENCE_KEPT_SECONDS, readTreeEvidence } from "../../../services/readTreeEvidence.ts";
import type { EvidenceDependencies } from "../../../services/readTreeEvidence.ts";
import { pathParameter } from "../../http/apiContext.ts";
import type { ApiContext } from "../../http/apiContext.ts";
import { textKeyEndpoint } from "../../http/endpoint.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { queryObject } from "../../http/fields.ts";
import { mayBeKept } from "../../http/mayBeKept.ts";
import { KEY_REFUSAL, PARAMETER_REFUSAL } from "../refusals.ts";
import { EVIDENCE_EXAMPLES } from "./examples.ts";

const CACHE_HEADERS = {
  ETag: "Names this text; send it as If-None-Match to be answered 304 while nothing has changed.",
  "Cache-Control": "How long the answer may be kept.",
  Age: "Seconds since the answer was first given.",
};

/** Every key has its own answers. */
const setValidator = (ctx: ApiContext, body: string): void => {
  ctx.status = 200;
  ctx.vary("Authorization");
  ctx.etag = hash("sha256", body, "base64url");
};

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
      replyHeaders: CACHE_HEADERS,
      refusals: [PARAMETER_REFUSAL, KEY_REFUSAL],
    },
    schemas: { reply: evidenceSummary },
    examples: { reply: EVIDENCE_EXAMPLES.summary },
    handle: async ({ ctx }) => {
      const { body, storedAt } = await readEvidenceSummary(deps);
      setValidator(ctx, body);
      mayBeKept(ctx, { storedAt, now: deps.clock.now(), keptSeconds: EVIDENCE_KEPT_SECONDS });
      return body;
    },
  });

const STAGE_MUST_BE = `must be one of ${EVIDENCE_STAGES.join(", ")}`;

const treeQuery = queryObject({
  evidence_stage: z.enum(EVIDENCE_STAGES, { error: STAGE_MUST_BE }).optional().meta({
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
      replyHeaders: {
        ...CACHE_HEADERS,
        "Evidence-Simulated": "`true` when evidence_stage was given.",
      },
      refusals: [
        {
          status: 400,
          when: "evidence_stage is none of the stages.",
          example: `evidence_stage: ${STAGE_MUST_BE}`,
        },
        KEY_REFUSAL,
        {
          status: 404,
          when: "The organization has no such tree registration in the key's mode.",
          example: "failed to find tree",
        },
      ],
    },
    schemas: { query: treeQuery, reply: treeEvidence },
    examples: { reply: EVIDENCE_EXAMPLES.tree },
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
      if (simulatedStage !== null) {
        ctx.set("Evidence-Simulated", "true");
        ctx.set("Cache-Control", "no-store");
        return body;
      }
      setValidator(ctx, body);
      if (isComplete) {
        mayBeKept(ctx, { storedAt, now: deps.clock.now(), keptSeconds: EVIDENCE_KEPT_SECONDS });
      } else {
        ctx.set("Cache-Control", "private, no-cache");
      }
      return body;
    },
  });

/** What is proven of one tree registration and of all together. */
export const evidenceEndpoints = (deps: EvidenceDependencies): readonly Endpoint[] => [
  summaryEndpoint(deps),
  treeEndpoint(deps),
];
