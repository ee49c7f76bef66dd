import { findMatchingTreeId } from "./storeRegistrations.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { EvidenceSelection } from "./customers.rules.ts";
import type { EvidenceStage, TreeEvidence } from "../planting/timeline.rules.ts";
import type { EvidenceRenderer } from "../planting/cacheEvidence.ts";
import { readTreeEvidence, simulateTreeEvidence } from "../planting/readTreeEvidence.ts";
import type { TreeEvidenceResponse } from "../planting/readTreeEvidence.ts";
import type { EvidenceContext } from "../planting/context.ts";

const notFound = (): DomainError => new DomainError("record_not_found", "failed to find tree");

/** Returns the newest tree registration that a selection matches. */
const getSelectedTree = async (
  { db }: EvidenceContext,
  owner: AccountMode,
  selection: EvidenceSelection,
): Promise<AccountMode & { readonly id: string }> => {
  const id = await findMatchingTreeId(db, owner, selection);
  if (id === null) {
    throw notFound();
  }
  return { ...owner, id };
};

/**
 * Returns the rendered evidence of the newest tree registration that a store's selection matches.
 * @throws DomainError record_not_found when none matches
 */
export const readStoreEvidence = async (
  context: EvidenceContext,
  owner: AccountMode,
  selection: EvidenceSelection,
  render: EvidenceRenderer<TreeEvidence>,
): Promise<TreeEvidenceResponse> =>
  readTreeEvidence(context, await getSelectedTree(context, owner, selection), render);

/**
 * Returns simulated evidence of the newest tree registration that a store's selection matches.
 * @throws DomainError record_not_found when none matches, or the simulation is in another project or region
 */
export const simulateStoreEvidence = async (
  context: EvidenceContext,
  owner: AccountMode,
  selection: EvidenceSelection,
  stage: EvidenceStage,
): Promise<TreeEvidence> => {
  const { projectPublicId, region } = selection;
  const tree = await getSelectedTree(context, owner, {
    ...selection,
    projectPublicId: null,
    region: null,
  });
  const evidence = await simulateTreeEvidence(context, tree, stage);
  const isSelected =
    (projectPublicId === null || evidence.order?.orderPublicId === projectPublicId) &&
    (region === null || evidence.region?.toLowerCase() === region.toLowerCase());
  if (!isSelected) {
    throw notFound();
  }
  return evidence;
};
