import { hash } from "node:crypto";
import {
  allocationEvidence,
  allocationReferenceOf,
  plantedEvidence,
  verifiedEvidence,
} from "../evidence.rules.ts";
import { chooseBySeed } from "../seededChoice.rules.ts";
import type { EvidenceFacts, EvidenceStage } from "../timeline.rules.ts";
import { EVIDENCE_STAGES, NOTHING_REACHED } from "../timeline.rules.ts";
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
  registration: EvidenceFacts["registration"],
  stage: EvidenceStage,
): EvidenceFacts => {
  const { id, count, createdAt: occurredAt } = registration;
  // The same reference has the same id at every stage.
  const idOf = (reference: string): number =>
    chooseBySeed(`${id}/${reference}`).between(100_000, 999_999);
  const order = { publicId: `po_simulated_${nameOf(id)}`, treeCount: count };
  const rank = EVIDENCE_STAGES.indexOf(stage);

  const allocated = simulateAllocated(order, occurredAt);
  const planted = simulatePlanted(order, occurredAt);
  const verified = simulateVerified(order, occurredAt);
  const session = {
    fieldUpdateId: idOf(verified.field_update_reference),
    plantingSessionId: idOf(verified.planting_session_reference),
  };
  const allocations = allocated.allocations.map((allocation) =>
    allocationEvidence(allocation, {
      allocationId: idOf(allocation.reference),
      siteId: idOf(allocation.planting_site.reference),
    }),
  );
  return {
    registration,
    partnerName: SIMULATED_PARTNER_NAME,
    isSimulated: true,
    importedFrom: null,
    shape: stage === "planted_and_verified" ? "sessions" : "allocations",
    region: rank >= 2 ? verified.planting_site.region : null,
    order:
      rank >= 1
        ? {
            orderId: idOf(order.publicId),
            orderPublicId: order.publicId,
            treeOrderId: idOf("tree order"),
            treeOrderPublicId: null,
            treeCount: count,
            buyerName: "Simulated buyer",
          }
        : null,
    reached: {
      ...NOTHING_REACHED,
      ...(rank >= 1 && { fundsDistributed: { occurredAt, evidence: null } }),
      ...(stage === "planted" && {
        allocated: { occurredAt, evidence: { allocations } },
        planted: { occurredAt, evidence: plantedEvidence(planted, session) },
      }),
      ...(stage === "planted_and_verified" && {
        verified: {
          occurredAt,
          evidence: verifiedEvidence(verified, {
            ...session,
            allocationId: idOf(allocationReferenceOf(verified)),
          }),
        },
      }),
    },
  };
};
