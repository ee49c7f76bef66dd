import type { DatabasePool } from "slonik";
import { findMatchingTreeId } from "./storeTrees.sql.ts";
import type { EvidenceReader } from "../planting/readTreeEvidence.ts";
import { treeNotFound } from "../planting/readTreeEvidence.ts";
import type { EvidenceStage } from "../planting/timeline.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { EvidenceSelection } from "./customers.rules.ts";

/**
 * Returns the evidence of the newest tree registration that a store's selection matches, or the evidence that it would have
 * at a stage.
 * @throws DomainError record_not_found when none matches, or the simulation is in another project or region
 */
export const readStoreEvidence = async (
  { db, reader }: { readonly db: DatabasePool; readonly reader: EvidenceReader },
  owner: AccountMode,
  selection: EvidenceSelection,
  stage: EvidenceStage | null,
): ReturnType<EvidenceReader["read"]> => {
  const { projectPublicId, region } = selection;
  const id = await findMatchingTreeId(
    db,
    owner,
    stage === null ? selection : { ...selection, projectPublicId: null, region: null },
  );
  if (id === null) {
    throw treeNotFound();
  }
  const read = await reader.read({ ...owner, id }, stage);
  const { order, region: shownRegion } = read.evidence;
  const isSelected =
    stage === null ||
    ((projectPublicId === null || order?.orderPublicId === projectPublicId) &&
      (region === null || shownRegion?.toLowerCase() === region.toLowerCase()));
  if (!isSelected) {
    throw treeNotFound();
  }
  return read;
};
