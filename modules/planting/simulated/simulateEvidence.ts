import { hash } from "node:crypto";
import { referenceId } from "../referenceId.ts";
import type { ReferenceKind } from "../referenceId.ts";
import type { EvidenceStage, TreeEvidence } from "../timeline.rules.ts";
import { EVIDENCE_STAGES } from "../timeline.rules.ts";
import { SIMULATED_PARTNER_NAME } from "./createSimulatedPartner.ts";
import { simulateAllocated, simulatePlanted, simulateVerified } from "./simulatedFacts.ts";

/** What the URL of a simulated picture can contain. The id of an imported registration may be any text. */
const URL_NAME = /^[\w-]+$/u;

const nameOf = (registrationId: string): string =>
  URL_NAME.test(registrationId)
    ? registrationId.replaceAll("-", "")
    : hash("sha256", registrationId, "hex").slice(0, 32);

/**
 * Returns made-up facts of a registration at a stage. They depend on the registration alone, so client tests are
 * repeatable. All happen when it was registered: a date in the future could pass for evidence.
 */
export const simulateEvidence = (
  registration: TreeEvidence["registration"],
  stage: EvidenceStage,
): TreeEvidence => {
  const { id, count, createdAt } = registration;
  const publicId = `po_simulated_${nameOf(id)}`;
  const idOf = (kind: ReferenceKind, reference: string): number =>
    referenceId("evidence_stage", kind, `${id}/${reference}`);
  const simulated = { publicId, treeCount: count };
  const isOrdered = EVIDENCE_STAGES.indexOf(stage) >= 1;
  const verified = simulateVerified(simulated, createdAt);
  return {
    registration,
    partnerName: SIMULATED_PARTNER_NAME,
    isSimulated: true,
    importedFrom: null,
    shape: stage === "planted_and_verified" ? "sessions" : "allocations",
    region: EVIDENCE_STAGES.indexOf(stage) >= 2 ? verified.planting_site.region : null,
    order: isOrdered
      ? {
          orderId: idOf("order", publicId),
          orderPublicId: publicId,
          treeOrderId: idOf("tree_order", publicId),
          treeOrderPublicId: null,
          treeCount: count,
          buyerName: "Simulated buyer",
        }
      : null,
    facts: {
      ...(isOrdered && {
        funds_distributed: {
          stage: "funds_distributed",
          occurred_at: createdAt.toISOString(),
          partner_reference: publicId,
        },
      }),
      ...(stage === "planted" && {
        allocated: simulateAllocated(simulated, createdAt),
        planted: simulatePlanted(simulated, createdAt),
      }),
      ...(stage === "planted_and_verified" && { planted_and_verified: verified }),
    },
    idOf,
  };
};
