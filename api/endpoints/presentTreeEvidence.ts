import type {
  Milestone,
  MilestoneEvent,
  TreeEvidence,
} from "../../modules/planting/timeline.rules.ts";
import { verifiedAllocationId } from "../../modules/planting/timeline.rules.ts";
import type { PresentedMilestone, PresentedTreeEvidence } from "./treeEvidenceSchema.ts";

/** Returns the URL of a path on this service; other URLs, and the empty one, stay as they are. */
export const absoluteUrl = (url: string, baseUrl: string): string =>
  url.startsWith("/") ? `${baseUrl}${url}` : url;

/** A title, and a description of a completed and of a pending milestone. */
const TEXTS: Readonly<
  Record<MilestoneEvent, readonly [title: string, completed: string, pending: string]>
> = {
  registered: ["Registered", "The trees are registered.", "The trees are not registered yet."],
  funds_distributed: [
    "Funds distributed",
    "The planting partner has the order and its funds.",
    "The planting partner does not have the order yet.",
  ],
  allocated: [
    "Allocated",
    "Planting sites and crews are assigned to the trees.",
    "Planting sites and crews are not assigned yet.",
  ],
  planted: ["Planted", "The trees are in the ground.", "The trees are not planted yet."],
  planted_and_verified: [
    "Planted and verified",
    "The trees are in the ground, and an independent assessor has verified them.",
    "The trees are not verified yet.",
  ],
};

const REFUND_TEXTS: Readonly<Record<NonNullable<TreeEvidence["fullRefund"]>, string>> = {
  beforeOrder: "The trees were registered, and refunded in full before they were ordered.",
  afterOrder:
    "The trees were registered, and refunded in full after they were ordered. They no longer count for the account.",
};

const ORDERED_ELSEWHERE = {
  registered: "The trees were registered in an earlier system, which arranged their planting.",
  refunded:
    "The trees were registered in an earlier system, which arranged their planting, and refunded in full. They no longer count for the account.",
  pending: "There is no evidence of this here.",
} as const;

const describe = (
  event: MilestoneEvent,
  isCompleted: boolean,
  { fullRefund, registration, importedFrom }: TreeEvidence,
): string => {
  const [, completed, pending] = TEXTS[event];
  if (registration.isOrderedElsewhere) {
    const registered = fullRefund ? "refunded" : "registered";
    return ORDERED_ELSEWHERE[event === "registered" ? registered : "pending"];
  }
  if (event === "registered" && fullRefund) {
    return REFUND_TEXTS[fullRefund];
  }
  if (isCompleted) {
    return importedFrom === null || event === "registered"
      ? completed
      : `${completed} Imported from ${importedFrom}.`;
  }
  return fullRefund === "beforeOrder" ? "The trees were refunded and are not ordered." : pending;
};

type Proof = NonNullable<PresentedMilestone["evidence"]>;

type AllocatedFact = NonNullable<TreeEvidence["facts"]["allocated"]>;
type VerifiedFact = NonNullable<TreeEvidence["facts"]["planted_and_verified"]>;

const presentOrder = (
  order: NonNullable<TreeEvidence["order"]>,
  { registration, partnerName }: TreeEvidence,
): Proof => ({
  partner: partnerName,
  order_id: order.orderId,
  order_public_id: order.orderPublicId,
  tree_order_id: order.treeOrderId,
  tree_order_public_id: order.treeOrderPublicId ?? `to_${registration.id.replaceAll("-", "")}`,
  tree_amount: order.treeCount,
  buyer_name: order.buyerName,
});

const presentAllocated = (
  { allocations }: AllocatedFact,
  { partnerName, idOf }: TreeEvidence,
  baseUrl: string,
): Proof => ({
  partner: partnerName,
  allocations: allocations.map(({ reference, date_allocated, planting_site: site, crew }) => ({
    allocation_id: idOf("allocation", reference),
    date_allocated,
    planting_site: {
      id: idOf("planting_site", site.reference),
      name: site.name,
      subsite_name: site.subsite_name,
      organization_name: site.organization_name,
      latitude: site.latitude,
      longitude: site.longitude,
      main_image: absoluteUrl(site.main_image, baseUrl),
    },
    crew,
  })),
});

const presentVerified = (
  verified: VerifiedFact,
  evidence: TreeEvidence,
  baseUrl: string,
): Proof => ({
  partner: evidence.partnerName,
  planting_site_name: verified.planting_site.name,
  subsite_name: verified.planting_site.subsite_name,
  organization_name: verified.planting_site.organization_name,
  assessor_name: verified.assessor_name,
  verifier: verified.verifier,
  date_verified: verified.occurred_at,
  session_total_planted: verified.session_total_planted,
  species: verified.species,
  image_url: absoluteUrl(verified.image_url, baseUrl),
  allocation_id: verifiedAllocationId(verified, evidence),
  field_update_id: evidence.idOf("field_update", verified.field_update_reference),
  planting_session_id: evidence.idOf("planting_session", verified.planting_session_reference),
  latitude: String(verified.latitude),
  longitude: String(verified.longitude),
  photos: verified.photos.map((photo) => absoluteUrl(photo, baseUrl)),
});

/** Returns the proof of a milestone; null while it is pending. */
const presentProof = (
  milestone: Milestone,
  evidence: TreeEvidence,
  baseUrl: string,
  createdAt: string,
): Proof | null => {
  const { registration, partnerName } = evidence;
  switch (milestone.event) {
    case "registered":
      return {
        tree_id: registration.id,
        record_id: registration.id,
        registered_at: createdAt,
        count: registration.count,
        fractional_count: registration.fractionalCount,
        attribution: registration.attribution,
      };
    case "funds_distributed":
      return milestone.reached && presentOrder(milestone.reached.proof, evidence);
    case "allocated":
      return milestone.reached && presentAllocated(milestone.reached.proof, evidence, baseUrl);
    case "planted":
      return (
        milestone.reached && {
          partner: partnerName,
          date_planted: milestone.reached.proof.occurred_at,
          media: milestone.reached.proof.media.map(({ reference, ...medium }) => ({
            id: reference,
            type: medium.type,
            url: absoluteUrl(medium.url, baseUrl),
            thumbnail_url: absoluteUrl(medium.thumbnail_url, baseUrl),
            latitude: medium.latitude,
            longitude: medium.longitude,
          })),
        }
      );
    case "planted_and_verified":
      return milestone.reached && presentVerified(milestone.reached.proof, evidence, baseUrl);
  }
};

const presentMilestone = (
  milestone: Milestone,
  step: number,
  evidence: TreeEvidence,
  baseUrl: string,
  createdAt: string,
): PresentedMilestone => {
  const { event, reached } = milestone;
  const [title] = TEXTS[event];
  const proof = presentProof(milestone, evidence, baseUrl, createdAt);
  const description = describe(event, proof !== null, evidence);
  if (!reached || !proof) {
    return { step, event, title, status: "pending", description };
  }
  const timestamp = event === "registered" ? createdAt : reached.at;
  return {
    step,
    event,
    title,
    status: "completed",
    date: timestamp.slice(0, 10),
    timestamp,
    description,
    evidence: proof,
  };
};

/**
 * @param baseUrl the public URL of this service, without a slash at the end
 * @param createdAt when the trees were registered, as the lists of the interface show it
 */
export const presentTreeEvidence = (
  evidence: TreeEvidence,
  baseUrl: string,
  createdAt = evidence.registration.createdAt.toISOString(),
): PresentedTreeEvidence => {
  const { registration, order, allocationId, session, timeline } = evidence;
  return {
    tree_id: registration.id,
    record_id: registration.id,
    impact_type: "trees",
    impact_provider: evidence.partnerName,
    simulated: evidence.isSimulated,
    ...(evidence.importedFrom !== null && { imported_from: evidence.importedFrom }),
    status: evidence.status,
    refunded: registration.refundedCount > 0,
    refunded_count: registration.refundedCount,
    provider_meta: {
      ...(order && { order_id: order.orderId, public_id: order.orderPublicId }),
      ...(allocationId !== null && { allocation_id: allocationId }),
      ...(session && {
        field_update_id: session.fieldUpdateId,
        planting_session_id: session.plantingSessionId,
      }),
    },
    timeline: timeline.map((milestone, index) =>
      presentMilestone(milestone, index + 1, evidence, baseUrl, createdAt),
    ),
  };
};
