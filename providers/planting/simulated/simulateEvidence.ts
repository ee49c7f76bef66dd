import type { EvidenceFacts, ReachedStages } from "../../../domain/planting/buildTreeEvidence.ts";
import {
  allocationReferenceOf,
  evidenceOfAllocation,
  evidenceOfPlanted,
  evidenceOfVerified,
} from "../../../domain/planting/evidenceOfFact.ts";
import type { EvidenceStage } from "../../../domain/planting/treeEvidence.ts";
import { EVIDENCE_STAGES } from "../../../domain/planting/treeEvidence.ts";
import { SIMULATED_PARTNER_NAME } from "./createSimulatedPartner.ts";
import { chooseBySeed } from "../../../domain/planting/seededChoice.ts";
import { simulateAllocated, simulatePlanted, simulateVerified } from "./simulatedFacts.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * What the evidence of a registration would look like at a stage. Nothing of it is on record; it depends on the
 * registration alone, so that client tests are repeatable.
 */
export const simulateEvidence = (
  registration: EvidenceFacts["registration"],
  stage: EvidenceStage,
): { readonly facts: EvidenceFacts; readonly region: string | null } => {
  const { id, count, createdAt } = registration;
  // The same reference has the same number at every stage.
  const numberOf = (reference: string): number =>
    chooseBySeed(`${id}/${reference}`).between(100_000, 999_999);
  const daysLater = (days: number): Date => new Date(createdAt.getTime() + days * DAY_MS);
  const order = { publicId: `po_simulated_${id.replaceAll("-", "")}`, treeCount: count };
  const rank = EVIDENCE_STAGES.indexOf(stage);

  const allocated = simulateAllocated(order, daysLater(3));
  const planted = simulatePlanted(order, daysLater(30));
  const verified = simulateVerified(order, daysLater(45));
  const allocations = allocated.allocations.map((allocation) =>
    evidenceOfAllocation(allocation, {
      allocationId: numberOf(allocation.reference),
      siteId: numberOf(allocation.planting_site.reference),
    }),
  );
  const reached: ReachedStages = {
    fundsDistributed: rank >= 1 ? { occurredAt: daysLater(1), evidence: null } : null,
    allocated: stage === "planted" ? { occurredAt: daysLater(3), evidence: { allocations } } : null,
    planted:
      stage === "planted"
        ? { occurredAt: daysLater(30), evidence: evidenceOfPlanted(planted) }
        : null,
    verified:
      stage === "planted_and_verified"
        ? {
            occurredAt: daysLater(45),
            evidence: evidenceOfVerified(verified, {
              allocationId: numberOf(allocationReferenceOf(verified)),
              fieldUpdateId: numberOf(verified.field_update_reference),
              plantingSessionId: numberOf(verified.planting_session_reference),
            }),
          }
        : null,
  };
  return {
    region: rank >= 2 ? verified.planting_site.region : null,
    facts: {
      registration,
      partnerName: SIMULATED_PARTNER_NAME,
      shape: stage === "planted_and_verified" ? "sessions" : "allocations",
      order:
        rank >= 1
          ? {
              orderId: numberOf(order.publicId),
              orderPublicId: order.publicId,
              treeOrderId: numberOf("tree order"),
              treeCount: count,
              buyerName: "Simulated buyer",
            }
          : null,
      reached,
    },
  };
};
