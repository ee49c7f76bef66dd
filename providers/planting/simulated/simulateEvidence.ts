import {
  allocationEvidence,
  allocationReferenceOf,
  plantedEvidence,
  verifiedEvidence,
} from "../../../domain/planting/evidence.ts";
import { chooseBySeed } from "../../../domain/planting/seededChoice.ts";
import type { EvidenceFacts, EvidenceStage } from "../../../domain/planting/timeline.ts";
import { EVIDENCE_STAGES, NOTHING_REACHED } from "../../../domain/planting/timeline.ts";
import { SIMULATED_PARTNER_NAME } from "./createSimulatedPartner.ts";
import { simulateAllocated, simulatePlanted, simulateVerified } from "./simulatedFacts.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** Returns made-up facts of a registration at a stage. They depend on the registration alone, so client tests are repeatable. */
export const simulateEvidence = (
  registration: EvidenceFacts["registration"],
  stage: EvidenceStage,
): EvidenceFacts => {
  const { id, count, createdAt } = registration;
  // The same reference has the same id at every stage.
  const idOf = (reference: string): number =>
    chooseBySeed(`${id}/${reference}`).between(100_000, 999_999);
  const daysLater = (days: number): Date => new Date(createdAt.getTime() + days * DAY_MS);
  const order = { publicId: `po_simulated_${id.replaceAll("-", "")}`, treeCount: count };
  const rank = EVIDENCE_STAGES.indexOf(stage);

  const allocated = simulateAllocated(order, daysLater(3));
  const verified = simulateVerified(order, daysLater(45));
  const allocations = allocated.allocations.map((allocation) =>
    allocationEvidence(allocation, {
      allocationId: idOf(allocation.reference),
      siteId: idOf(allocation.planting_site.reference),
    }),
  );
  return {
    registration,
    partnerName: SIMULATED_PARTNER_NAME,
    shape: stage === "planted_and_verified" ? "sessions" : "allocations",
    region: rank >= 2 ? verified.planting_site.region : null,
    order:
      rank >= 1
        ? {
            orderId: idOf(order.publicId),
            orderPublicId: order.publicId,
            treeOrderId: idOf("tree order"),
            treeCount: count,
            buyerName: "Simulated buyer",
          }
        : null,
    reached: {
      ...NOTHING_REACHED,
      ...(rank >= 1 && { fundsDistributed: { occurredAt: daysLater(1), evidence: null } }),
      ...(stage === "planted" && {
        allocated: { occurredAt: daysLater(3), evidence: { allocations } },
        planted: {
          occurredAt: daysLater(30),
          evidence: plantedEvidence(simulatePlanted(order, daysLater(30))),
        },
      }),
      ...(stage === "planted_and_verified" && {
        verified: {
          occurredAt: daysLater(45),
          evidence: verifiedEvidence(verified, {
            allocationId: idOf(allocationReferenceOf(verified)),
            fieldUpdateId: idOf(verified.field_update_reference),
            plantingSessionId: idOf(verified.planting_session_reference),
          }),
        },
      }),
    },
  };
};
