import type { EvidenceFacts, ReachedStages } from "../../../domain/buildTreeEvidence.ts";
import type { EvidenceStage } from "../../../domain/treeEvidence.ts";
import { EVIDENCE_STAGES } from "../../../domain/treeEvidence.ts";
import { chooseBySeed } from "./seededChoice.ts";
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
  const site = verified.planting_site;
  const allocations = allocated.allocations.map(
    ({ reference, date_allocated, planting_site, crew }) => ({
      allocation_id: numberOf(reference),
      date_allocated,
      planting_site: {
        id: numberOf(planting_site.reference),
        name: planting_site.name,
        subsite_name: planting_site.subsite_name,
        organization_name: planting_site.organization_name,
        latitude: planting_site.latitude,
        longitude: planting_site.longitude,
        main_image: planting_site.main_image,
      },
      crew,
    }),
  );
  const reached: ReachedStages = {
    fundsDistributed: rank >= 1 ? { occurredAt: daysLater(1), evidence: null } : null,
    allocated: stage === "planted" ? { occurredAt: daysLater(3), evidence: { allocations } } : null,
    planted:
      stage === "planted"
        ? {
            occurredAt: daysLater(30),
            evidence: {
              date_planted: planted.occurred_at,
              media: planted.media.map(({ reference, ...media }) =>
                Object.assign({ id: reference }, media),
              ),
            },
          }
        : null,
    verified:
      stage === "planted_and_verified"
        ? {
            occurredAt: daysLater(45),
            evidence: {
              planting_site_name: site.name,
              subsite_name: site.subsite_name,
              organization_name: site.organization_name,
              assessor_name: verified.assessor_name,
              verifier: verified.verifier,
              date_verified: verified.occurred_at,
              session_total_planted: verified.session_total_planted,
              species: verified.species,
              image_url: verified.image_url,
              allocation_id: numberOf(
                verified.allocation_reference ?? verified.planting_session_reference,
              ),
              field_update_id: numberOf(verified.field_update_reference),
              planting_session_id: numberOf(verified.planting_session_reference),
              latitude: String(verified.latitude),
              longitude: String(verified.longitude),
              photos: verified.photos,
            },
          }
        : null,
  };
  return {
    region: rank >= 2 ? site.region : null,
    facts: {
      registration,
      partnerName: "Simulated planting partner",
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
