import { z } from "zod";
import { invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { normalizePlace } from "../../modules/planting/fact.rules.ts";
import type { EvidenceStage, TreeEvidence } from "../../modules/planting/timeline.rules.ts";
import { readTimestamp, TIMESTAMP_PATTERN } from "../../modules/records/timestamps.rules.ts";
import { createEvidenceReader, TREE_NOT_FOUND } from "../../modules/planting/readEvidence.ts";
import { findMatchingTreeId } from "../../modules/stores/storeTrees.sql.ts";
import type { AppContext } from "../context.ts";
import {
  EVIDENCE_HEADERS,
  evidenceStage,
  renderEvidence,
  treeEvidence,
} from "../endpoints/treeEvidenceSchema.ts";
import { presentTreeEvidence } from "../endpoints/presentTreeEvidence.ts";
import { startOfNextDay } from "../http/listPages.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { optional, wholeNumber } from "../http/parseRequest.ts";
import { valueOfAliases } from "./fields.ts";

const parameter = () => text(200).transform((given) => given.trim());

/** A text that cannot be an id is one that does not exist. */
const recordId = () => z.string().optional();

const query = z.object({
  tree_id: recordId().describe(
    "The tree record. If absent, the newest record that matches the other parameters.",
  ),
  id: recordId().describe("Alias of tree_id."),
  tree: recordId().describe("Alias of tree_id."),
  impact_type: optional(
    z.literal("trees", { error: "must be trees" }),
    "Only trees have evidence.",
  ),
  created_at: parameter()
    .optional()
    .meta({
      pattern: TIMESTAMP_PATTERN,
      description:
        "A day, or any ISO 8601 timestamp of it (UTC without an offset); selects the newest record of this UTC day, or else the newest before it.",
      examples: ["2025-06-01"],
    }),
  tree_date: parameter()
    .optional()
    .meta({ pattern: TIMESTAMP_PATTERN, description: "Alias of created_at." }),
  project_public_id: optional(parameter(), "Only trees of this planting order."),
  region: optional(parameter(), "Only trees planted in this region."),
  evidence_stage: evidenceStage().describe(
    "Simulates that the trees have reached this stage, whatever the project and the region. Permitted only with a test key.",
  ),
});

const response = treeEvidence
  .extend({
    created_at: z.iso.datetime(),
    region: z.string().describe("Empty until the planting site is known."),
    evidence_count: wholeNumber().describe("Number of milestones that carry evidence."),
  })
  .meta({ id: "StoreEvidence" });

/** Returns when the day of a date or timestamp ends; null if no later day can be written. */
const endOfDay = (given: string): Date | null => {
  const time = readTimestamp(given, "down");
  if (time === null) {
    throw invalidRequest(
      "created_at: must be a date in the form YYYY-MM-DD or a timestamp such as 2025-06-01T12:00:00Z",
    );
  }
  return startOfNextDay(time.slice(0, 10)) ?? null;
};

/** Returns which tree is wanted. In a simulation, its project and its region are simulated too, so they select nothing. */
const selectionOf = (given: z.output<typeof query>, stage: EvidenceStage | null) => {
  const { tree_id, id, tree, created_at, tree_date } = given;
  const createdAt = valueOfAliases({ created_at, tree_date });
  const region = stage === null ? normalizePlace(given.region ?? "") : "";
  return {
    id: valueOfAliases({ tree_id, id, tree }) ?? null,
    until: createdAt === undefined ? null : endOfDay(createdAt),
    projectPublicId: (stage === null && given.project_public_id) || null,
    region: region || null,
  };
};

const presentStoreEvidence = (
  evidence: TreeEvidence,
  baseUrl: string,
): z.output<typeof response> => {
  const { region, registration } = evidence;
  const presented = presentTreeEvidence(evidence, baseUrl, registration.position);
  return {
    ...presented,
    created_at: registration.position,
    region: region ?? "",
    evidence_count: presented.timeline.filter(({ status }) => status === "completed").length,
  };
};

export const evidenceEndpoint = (app: AppContext) => {
  const readEvidence = createEvidenceReader(app);
  return keyEndpoint("get", "/app/api/evidence", {
    operationId: "evidence",
    tag: "impact",
    summary: "Read the planting evidence of a tree record",
    details:
      "Returns the newest record that matches. A record that was refunded in full is found only by its id. The milestones are those of the standalone interface.",
    responseHeaders: {
      ...EVIDENCE_HEADERS,
      "Cache-Control":
        "How long the response may be cached: 30 days once the timeline of a record selected by its id is complete.",
    },
    errors: ["record_not_found", "query_timeout"],
    schemas: { query, response },
    handle: async ({ ctx, owner, query: given }) => {
      const stage = given.evidence_stage ?? null;
      if (stage !== null && owner.mode !== "test") {
        throw invalidRequest("evidence_stage: is permitted only with test keys");
      }
      const selection = selectionOf(given, stage);
      // Many records may have to be read to find those of a project or a region.
      const isSearch = selection.projectPublicId !== null || selection.region !== null;
      const id = requireFound(
        await findMatchingTreeId(isSearch ? app.reads : app.db, owner, selection),
        TREE_NOT_FOUND,
      );
      const { evidence, isComplete } = await readEvidence({ ...owner, id }, stage);
      return renderEvidence(ctx, presentStoreEvidence(evidence, app.publicBaseUrl()), {
        isOfStage: stage !== null,
        // The newest record may be another one at any time; a record that is named stays the same.
        isLasting: isComplete && selection.id !== null,
        isSimulated: evidence.isSimulated,
      });
    },
  });
};
