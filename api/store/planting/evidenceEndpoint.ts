import { z } from "zod";
import { toMicroseconds } from "../cursor.ts";
import { DomainError } from "../../../domain/errors.ts";
import { date, id, text } from "../../../domain/fields.ts";
import type { EvidenceSelection } from "../../../domain/stores/storeEvidence.ts";
import type { TreeEvidence } from "../../../domain/planting/timeline.ts";
import {
  readStoreEvidence,
  simulateStoreEvidence,
} from "../../../services/stores/readStoreEvidence.ts";
import type { EvidenceDependencies } from "../../../services/planting/cacheEvidence.ts";
import {
  EVIDENCE_HEADERS,
  evidenceStage,
  setCacheHeaders,
  setSimulatedHeaders,
} from "../../planting/evidenceHeaders.ts";
import { presentTreeEvidence } from "../../planting/presentTreeEvidence.ts";
import { treeEvidence } from "../../planting/treeEvidenceSchema.ts";
import { startOfNextDay } from "../../http/days.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { textKeyEndpoint } from "../../http/endpoint.ts";
import { queryObject } from "../../http/parseRequest.ts";
import { KEY_ERROR, QUERY_ERROR } from "../errors.ts";

const parameter = () => text(200).transform((given) => given.trim());

const TYPE_MUST_BE = "must be trees";

const query = queryObject({
  tree_id: parameter().optional().meta({
    description: "The tree record; the newest one that the other parameters leave if absent.",
  }),
  id: parameter().optional().meta({ description: "The same as tree_id." }),
  tree: parameter().optional().meta({ description: "The same as tree_id." }),
  impact_type: z
    .enum(["trees", ""], { error: TYPE_MUST_BE })
    .optional()
    .meta({ description: "Only trees have evidence." }),
  created_at: parameter()
    .optional()
    .meta({
      description: "A day, UTC, or an instant: the nearest record of then or before.",
      examples: ["2025-06-01"],
    }),
  tree_date: parameter().optional().meta({ description: "The same as created_at." }),
  project_public_id: parameter()
    .optional()
    .meta({ description: "Only trees of this planting order." }),
  region: parameter().optional().meta({ description: "Only trees that stand there." }),
  evidence_stage: evidenceStage().meta({
    description: "Only with a test key: pretends that the trees have reached this stage.",
  }),
});

const response = treeEvidence
  .extend({
    created_at: z.iso.datetime(),
    region: z.string().meta({ description: "Empty until it is known where the trees stand." }),
    evidence_count: z
      .int()
      .min(0)
      .meta({ description: "Milestones of the timeline that carry evidence." }),
  })
  .meta({ id: "StoreEvidence" });

/** The one value that a parameter's names carry; an empty one is none. */
const oneOf = (given: Readonly<Record<string, string | undefined>>): string | null => {
  const values = Object.values(given).filter((value) => value !== undefined && value !== "");
  const [value = null] = values;
  if (values.some((other) => other !== value)) {
    throw new DomainError(
      "request_invalid",
      `${Object.keys(given).join(", ")}: stand for the same and must not differ`,
    );
  }
  return value;
};

const upperBoundOf = (given: string): NonNullable<EvidenceSelection["upTo"]> => {
  if (date().safeParse(given).success) {
    const nextDay = startOfNextDay(given);
    return nextDay === undefined
      ? { time: "infinity", isInclusive: true }
      : { time: nextDay.toISOString(), isInclusive: false };
  }
  const time = toMicroseconds(given);
  if (time === null) {
    throw new DomainError(
      "request_invalid",
      "created_at: must be a date in the form YYYY-MM-DD or an ISO 8601 timestamp",
    );
  }
  return { time, isInclusive: true };
};

const selectionOf = (given: z.output<typeof query>): EvidenceSelection => {
  const treeId = oneOf({ tree_id: given.tree_id, id: given.id, tree: given.tree });
  if (treeId !== null && !id().safeParse(treeId).success) {
    throw new DomainError("record_not_found", "failed to find tree");
  }
  const createdAt = oneOf({ created_at: given.created_at, tree_date: given.tree_date });
  return {
    id: treeId,
    upTo: createdAt === null ? null : upperBoundOf(createdAt),
    projectPublicId: given.project_public_id || null,
    region: given.region || null,
  };
};

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";
const EXAMPLE: z.output<typeof response> = {
  tree_id: ID,
  record_id: ID,
  impact_type: "trees",
  impact_provider: "North Coast Planting",
  status: "registered",
  provider_meta: {},
  timeline: [
    {
      step: 1,
      event: "registered",
      title: "Registered",
      status: "completed",
      date: "2025-06-01",
      timestamp: "2025-06-01T12:00:00.000Z",
      description: "The trees are on record and will be part of the next planting order.",
      evidence: {
        tree_id: ID,
        record_id: ID,
        registered_at: "2025-06-01T12:00:00.000Z",
        count: 3,
        fractional_count: 0,
        attribution: "",
      },
    },
    {
      step: 2,
      event: "funds_distributed",
      title: "Funds distributed",
      status: "pending",
      description: "The planting partner has the order and its funds.",
    },
  ],
  created_at: "2025-06-01T12:00:00.000Z",
  region: "",
  evidence_count: 1,
};

const presentStoreEvidence = (
  evidence: TreeEvidence,
  baseUrl: string,
): z.output<typeof response> => ({
  ...presentTreeEvidence(evidence, baseUrl),
  created_at: evidence.registration.createdAt.toISOString(),
  region: evidence.region ?? "",
  evidence_count: evidence.timeline.filter(({ reached }) => reached !== null).length,
});

const renderStoreEvidence = (evidence: TreeEvidence, baseUrl: string): string =>
  JSON.stringify(presentStoreEvidence(evidence, baseUrl));

export const evidenceEndpoint = (deps: EvidenceDependencies): Endpoint =>
  textKeyEndpoint({
    method: "get",
    path: "/app/api/evidence",
    description: {
      operationId: "evidence",
      tag: "impact",
      summary: "What is proven of a tree record",
      details:
        "Of all records that match, the newest; one that was refunded in full only by its id. The milestones are those of the standalone interface, with what they show.",
      responseHeaders: {
        ...EVIDENCE_HEADERS,
        "Cache-Control":
          "How long the answer may be kept: 30 days once nothing is left to happen to a record named by its id.",
        Age: "Seconds since the answer was first given, where it may be kept.",
      },
      errors: [
        { ...QUERY_ERROR, example: `impact_type: ${TYPE_MUST_BE}` },
        KEY_ERROR,
        {
          code: "record_not_found",
          when: "The store has no such tree record in the key's mode.",
          example: "failed to find tree",
        },
      ],
    },
    schemas: { query, response },
    examples: { response: EXAMPLE },
    handle: async ({ ctx, caller, query: given }) => {
      const { accountId, mode } = caller;
      const stage = given.evidence_stage ?? null;
      if (stage !== null && mode !== "test") {
        throw new DomainError(
          "request_invalid",
          "evidence_stage: is permitted only with test keys",
        );
      }
      const selection = selectionOf(given);
      const owner = { accountId, mode };
      if (stage !== null) {
        const evidence = await simulateStoreEvidence(deps, owner, selection, stage);
        setSimulatedHeaders(ctx);
        return renderStoreEvidence(evidence, deps.publicBaseUrl());
      }
      const cached = await readStoreEvidence(deps, owner, selection, renderStoreEvidence);
      setCacheHeaders(ctx, cached, {
        keyHeaders: "api_key, shop_name, user_id",
        // The newest record may be another one at any time; a record that is named stays the same.
        isLasting: cached.isComplete && selection.id !== null,
        now: deps.clock.now(),
      });
      return cached.body;
    },
  });
