import type {
  AllocatedEvidence,
  PlantedEvidence,
  VerifiedEvidence,
} from "../../modules/planting/evidence.rules.ts";
import type {
  Milestone,
  MilestoneEvent,
  TreeEvidence,
} from "../../modules/planting/timeline.rules.ts";
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
  { fullRefund, isOrderedElsewhere, importedFrom }: TreeEvidence,
): string => {
  const [, completed, pending] = TEXTS[event];
  if (isOrderedElsewhere) {
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

const presentRegistered = (
  { id, ...registration }: TreeEvidence["registration"],
  createdAt: string,
): Proof => ({
  tree_id: id,
  record_id: id,
  registered_at: createdAt,
  count: registration.count,
  fractional_count: registration.fractionalCount,
  attribution: registration.attribution,
});

const presentOrder = (
  order: NonNullable<TreeEvidence["order"]>,
  partner: string,
  registrationId: string,
): Proof => ({
  partner,
  order_id: order.orderId,
  order_public_id: order.orderPublicId,
  tree_order_id: order.treeOrderId,
  tree_order_public_id: order.treeOrderPublicId ?? `to_${registrationId.replaceAll("-", "")}`,
  tree_amount: order.treeCount,
  buyer_name: order.buyerName,
});

const presentAllocated = (
  { allocations }: AllocatedEvidence,
  partner: string,
  baseUrl: string,
): Proof => ({
  partner,
  allocations: allocations.map(({ allocationId, allocatedAt, site, crew }) => ({
    allocation_id: allocationId,
    date_allocated: allocatedAt,
    planting_site: {
      id: site.id,
      name: site.name,
      subsite_name: site.subsiteName,
      organization_name: site.organizationName,
      latitude: site.latitude,
      longitude: site.longitude,
      main_image: absoluteUrl(site.imageUrl, baseUrl),
    },
    crew: {
      leader: crew.leader,
      style: crew.style,
      total_members: crew.totalMembers,
      women_members: crew.womenMembers,
    },
  })),
});

const presentPlanted = (
  { plantedAt, media }: PlantedEvidence,
  partner: string,
  baseUrl: string,
): Proof => ({
  partner,
  date_planted: plantedAt,
  media: media.map((medium) => ({
    id: medium.id,
    type: medium.type,
    url: absoluteUrl(medium.url, baseUrl),
    thumbnail_url: absoluteUrl(medium.thumbnailUrl, baseUrl),
    latitude: medium.latitude,
    longitude: medium.longitude,
  })),
});

const presentVerified = (verified: VerifiedEvidence, partner: string, baseUrl: string): Proof => ({
  partner,
  planting_site_name: verified.siteName,
  subsite_name: verified.subsiteName,
  organization_name: verified.organizationName,
  assessor_name: verified.assessorName,
  verifier: verified.verifier,
  date_verified: verified.verifiedAt,
  session_total_planted: verified.sessionTotalPlanted,
  species: [...verified.species],
  image_url: absoluteUrl(verified.imageUrl, baseUrl),
  allocation_id: verified.allocationId,
  field_update_id: verified.fieldUpdateId,
  planting_session_id: verified.plantingSessionId,
  latitude: String(verified.latitude),
  longitude: String(verified.longitude),
  photos: verified.photos.map((photo) => absoluteUrl(photo, baseUrl)),
});

/** Returns the proof of a milestone; null while it is pending. */
const presentProof = (
  milestone: Milestone,
  { registration, partnerName }: TreeEvidence,
  baseUrl: string,
  createdAt: string,
): Proof | null => {
  switch (milestone.event) {
    case "registered":
      return milestone.reached && presentRegistered(milestone.reached.evidence, createdAt);
    case "funds_distributed":
      return (
        milestone.reached && presentOrder(milestone.reached.evidence, partnerName, registration.id)
      );
    case "allocated":
      return (
        milestone.reached && presentAllocated(milestone.reached.evidence, partnerName, baseUrl)
      );
    case "planted":
      return milestone.reached && presentPlanted(milestone.reached.evidence, partnerName, baseUrl);
    case "planted_and_verified":
      return milestone.reached && presentVerified(milestone.reached.evidence, partnerName, baseUrl);
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
  const timestamp = event === "registered" ? createdAt : reached.occurredAt.toISOString();
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
    refunded: evidence.refundedCount > 0,
    refunded_count: evidence.refundedCount,
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

export const renderTreeEvidence = (evidence: TreeEvidence, baseUrl: string): string =>
  JSON.stringify(presentTreeEvidence(evidence, baseUrl));
