import type { CommonQueryMethods } from "slonik";
import { treeKey } from "./cachedResponses.sql.ts";
import type { CachedResponse } from "./cachedResponses.sql.ts";
import type { EvidenceTree } from "./treeEvidence.sql.ts";
import { findEvidenceTree, listReachedStages } from "./treeEvidence.sql.ts";
import type { AccountMode, Mode } from "../records/owner.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { expectedPartner, isSimulated } from "./order.rules.ts";
import type {
  EvidenceFacts,
  EvidenceStage,
  OrderedTrees,
  ReachedStages,
  TreeEvidence,
} from "./timeline.rules.ts";
import { buildTreeEvidence, isExpectedToStay, NOTHING_REACHED } from "./timeline.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";
import { simulateEvidence } from "./simulated/simulateEvidence.ts";
import type { EvidenceContext } from "./context.ts";
import type { EvidenceRenderer } from "./cacheEvidence.ts";
import { cacheEvidence } from "./cacheEvidence.ts";

/** The rendered evidence: the same text from every process for 30 days or until the next milestone. */
export type TreeEvidenceResponse = CachedResponse & {
  /** Whether the text is expected to stay, because the order is no longer polled and its timeline is complete. */
  readonly isComplete: boolean;
  readonly isSimulated: boolean;
};

type TreeSelection = AccountMode & { readonly id: string };

const orderOf = (tree: EvidenceTree): OrderedTrees | null =>
  tree.shownOrderId === null ||
  tree.orderPublicId === null ||
  tree.treeOrderId === null ||
  tree.buyerName === null
    ? null
    : {
        orderId: tree.shownOrderId,
        orderPublicId: tree.orderPublicId,
        treeOrderId: tree.treeOrderId,
        treeOrderPublicId: tree.treeOrderPublicId,
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

const registrationOf = (tree: EvidenceTree): EvidenceFacts["registration"] => ({
  ...tree,
  id: shownIdOf(tree),
});

const readFacts = async (
  { db, planting }: EvidenceContext,
  mode: Mode,
  tree: EvidenceTree,
): Promise<EvidenceFacts> => {
  const partner = planting.partnerFor(mode);
  return {
    registration: registrationOf(tree),
    partnerName: tree.isOrderedElsewhere ? "Earlier system" : (tree.partnerName ?? partner.name),
    importedFrom: tree.importedFrom,
    isSimulated: isSimulated(expectedPartner(tree, partner.kind) ?? ""),
    shape: tree.timeline ?? partner.timeline,
    order: orderOf(tree),
    reached: tree.orderId === null ? NOTHING_REACHED : await readReached(db, tree.orderId),
    region: tree.region,
  };
};

const getEvidenceTree = async (
  { db, clock }: EvidenceContext,
  selection: TreeSelection,
  baseUrl: string,
): Promise<EvidenceTree> => {
  const tree = await findEvidenceTree(db, selection, selection.id, baseUrl, clock.now());
  if (!tree) {
    throw new DomainError("record_not_found", "failed to find tree");
  }
  return tree;
};

/**
 * Returns the rendered evidence of a tree registration and caches it.
 * @param render must be the same for all registrations of an account, because the cache holds one text each
 * @throws DomainError record_not_found when the account has no such registration in this mode
 */
export const readTreeEvidence = async (
  context: EvidenceContext,
  selection: TreeSelection,
  render: EvidenceRenderer<TreeEvidence>,
): Promise<TreeEvidenceResponse> => {
  const baseUrl = context.publicBaseUrl();
  const tree = await getEvidenceTree(context, selection, baseUrl);
  const { orderId, cached } = tree;
  const isComplete = isExpectedToStay(tree);
  if (cached) {
    return { ...cached, isComplete, isSimulated: isSimulated(tree.partner ?? "") };
  }
  const evidence = buildTreeEvidence(await readFacts(context, selection.mode, tree));
  const body = render(evidence, baseUrl);
  const response =
    // Without an order, the partner may still change.
    orderId === null
      ? { body, storedAt: context.clock.now() }
      : await cacheEvidence(context, {
          key: treeKey(tree.id),
          baseUrl,
          revision: tree.revision,
          body,
        });
  return { ...response, isComplete, isSimulated: evidence.isSimulated };
};

/**
 * Returns the evidence that a tree registration would have at a stage. Nothing is cached or stored.
 * @throws DomainError record_not_found when the account has no such registration in this mode
 */
export const simulateTreeEvidence = async (
  context: EvidenceContext,
  selection: TreeSelection,
  stage: EvidenceStage,
): Promise<TreeEvidence> =>
  buildTreeEvidence(
    simulateEvidence(
      registrationOf(await getEvidenceTree(context, selection, context.publicBaseUrl())),
      stage,
    ),
  );
