import { findSelectedTree } from "../../db/registrations/storeRegistrations.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";
import type { EvidenceSelection } from "../../domain/stores/storeEvidence.ts";
import type { EvidenceStage, TreeEvidence } from "../../domain/planting/treeEvidence.ts";
import type { EvidenceDependencies, TreeEvidenceResponse } from "../planting/readTreeEvidence.ts";
import { parseTreeEvidence, readTreeEvidence } from "../planting/readTreeEvidence.ts";

const notFound = (): DomainError => new DomainError("record_not_found", "failed to find tree");

/** Whether made-up evidence is of the place and the project that were asked for. */
const isSelected = (
  { projectPublicId, region }: EvidenceSelection,
  evidence: TreeEvidence,
  evidenceRegion: string | null,
): boolean =>
  (projectPublicId === null || evidence.provider_meta.public_id === projectPublicId) &&
  (region === null || evidenceRegion?.toLowerCase() === region.toLowerCase());

/**
 * Tells what is proven of the newest tree registration that a store's selection leaves.
 * @throws DomainError record_not_found when it leaves none
 */
export const readStoreEvidence = async (
  deps: EvidenceDependencies,
  owner: AccountMode,
  selection: EvidenceSelection,
  simulatedStage: EvidenceStage | null,
): Promise<Omit<TreeEvidenceResponse, "body"> & { readonly evidence: TreeEvidence }> => {
  const isSimulated = simulatedStage !== null;
  const id = await findSelectedTree(
    deps.db,
    owner,
    isSimulated ? { ...selection, projectPublicId: null, region: null } : selection,
  );
  if (id === null) {
    throw notFound();
  }
  const { body, ...answer } = await readTreeEvidence(deps, {
    ...owner,
    id,
    simulatedStage,
  });
  const evidence = parseTreeEvidence(body);
  if (isSimulated && !isSelected(selection, evidence, answer.region)) {
    throw notFound();
  }
  return { evidence, ...answer };
};
