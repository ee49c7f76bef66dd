import type { CommonQueryMethods } from "slonik";
import { storeCachedResponse, treeKey } from "../../db/planting/cachedResponses.ts";
import type { EvidenceTree } from "../../db/planting/treeEvidence.ts";
import { findEvidenceTree, listReachedStages } from "../../db/planting/treeEvidence.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type {
  EvidenceFacts,
  OrderedTrees,
  ReachedStages,
} from "../../domain/planting/buildTreeEvidence.ts";
import { buildTreeEvidence, NOTHING_REACHED } from "../../domain/planting/buildTreeEvidence.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import { treeEvidence } from "../../domain/planting/treeEvidence.ts";
import type { EvidenceStage, TreeEvidence } from "../../domain/planting/treeEvidence.ts";
import type { Planting } from "../../providers/planting/createPlanting.ts";
import { simulateEvidence } from "../../providers/planting/simulated/simulateEvidence.ts";

/** As the contract has it: 30 days. */
export const EVIDENCE_CACHE_SECONDS = 30 * 24 * 60 * 60;

export type EvidenceDependencies = {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
  readonly planting: Planting;
  /** Where clients reach this service, without a slash at the end. */
  readonly publicBaseUrl: () => string;
};

export type TreeEvidenceResponse = {
  /** The record as JSON, see `parseTreeEvidence`: the same bytes from every process for as long as nothing happens to the tree. */
  readonly body: string;
  /** When that text came about. */
  readonly storedAt: Date;
  /** Whether nothing more is looked for: the order is followed to its end. */
  readonly isComplete: boolean;
  readonly registeredAt: Date;
  /** Where the trees stand; null until that is known. */
  readonly region: string | null;
};

const orderOf = (tree: EvidenceTree): OrderedTrees | null =>
  tree.orderId === null ||
  tree.orderPublicId === null ||
  tree.treeOrderId === null ||
  tree.orderedCount === null ||
  tree.buyerName === null
    ? null
    : {
        orderId: tree.orderId,
        orderPublicId: tree.orderPublicId,
        treeOrderId: tree.treeOrderId,
        treeCount: tree.orderedCount,
        buyerName: tree.buyerName,
      };

const readReached = async (db: CommonQueryMethods, orderId: number): Promise<ReachedStages> => {
  const stages = await listReachedStages(db, orderId);
  return {
    fundsDistributed: stages.find((reached) => reached.stage === "funds_distributed") ?? null,
    allocated: stages.find((reached) => reached.stage === "allocated") ?? null,
    planted: stages.find((reached) => reached.stage === "planted") ?? null,
    verified: stages.find((reached) => reached.stage === "planted_and_verified") ?? null,
  };
};

const readFacts = async (
  { db, planting }: EvidenceDependencies,
  mode: Mode,
  tree: EvidenceTree,
): Promise<EvidenceFacts> => {
  const partner = planting.partnerFor(mode);
  return {
    registration: tree,
    partnerName: tree.partnerName ?? partner.name,
    shape: tree.timeline ?? partner.timeline,
    order: orderOf(tree),
    reached: tree.orderId === null ? NOTHING_REACHED : await readReached(db, tree.orderId),
  };
};

const cacheResponse = (
  { db, clock }: EvidenceDependencies,
  tree: EvidenceTree,
  baseUrl: string,
  body: string,
): Promise<{ readonly body: string; readonly storedAt: Date }> => {
  const storedAt = clock.now();
  return storeCachedResponse(db, {
    key: treeKey(tree.id),
    baseUrl,
    revision: tree.revision,
    body,
    storedAt,
    expiresAt: new Date(storedAt.getTime() + EVIDENCE_CACHE_SECONDS * 1000),
  });
};

/**
 * Tells what is proven of a tree registration. The answer is kept for 30 days or until the next milestone, whichever comes
 * first; a simulated one is made up anew each time and never kept.
 * @param request.simulatedStage the stage to pretend; null for the truth
 * @throws DomainError record_not_found when the account has no such registration in this mode
 */
export const readTreeEvidence = async (
  deps: EvidenceDependencies,
  request: {
    readonly accountId: string;
    readonly mode: Mode;
    readonly id: string;
    readonly simulatedStage: EvidenceStage | null;
  },
): Promise<TreeEvidenceResponse> => {
  const baseUrl = deps.publicBaseUrl();
  const tree = await findEvidenceTree(deps.db, request, request.id, baseUrl, deps.clock.now());
  if (!tree) {
    throw new DomainError("record_not_found", "failed to find tree");
  }
  const registeredAt = tree.createdAt;
  if (request.simulatedStage !== null) {
    const { facts, region } = simulateEvidence(tree, request.simulatedStage);
    const body = JSON.stringify(buildTreeEvidence(facts, baseUrl));
    return { body, storedAt: deps.clock.now(), isComplete: false, registeredAt, region };
  }
  const { region, isFinished: isComplete } = tree;
  if (tree.cachedBody !== null && tree.cachedAt !== null) {
    const { cachedBody: body, cachedAt: storedAt } = tree;
    return { body, storedAt, isComplete, registeredAt, region };
  }
  const facts = await readFacts(deps, request.mode, tree);
  const answer = await cacheResponse(
    deps,
    tree,
    baseUrl,
    JSON.stringify(buildTreeEvidence(facts, baseUrl)),
  );
  return { ...answer, isComplete, registeredAt, region };
};

/** The record that an answer's text holds. */
export const parseTreeEvidence = (body: string): TreeEvidence =>
  treeEvidence.parse(JSON.parse(body));
