import type { MilestoneEvent, TreeEvidence } from "../../modules/planting/timeline.rules.ts";
import { furthestMilestone, MILESTONES } from "../../modules/planting/timeline.rules.ts";
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

const REFUNDED_LATER = "They no longer count for the account.";
const ELSEWHERE = "The trees were registered in an earlier system, which arranged their planting";

const describe = (
  event: MilestoneEvent,
  isCompleted: boolean,
  { registration, order, importedFrom }: TreeEvidence,
): string => {
  const [, completed, pending] = TEXTS[event];
  const isRefunded = registration.refundedCount >= registration.count;
  if (registration.isOrderedElsewhere) {
    const registered = isRefunded
      ? `${ELSEWHERE}, and refunded in full. ${REFUNDED_LATER}`
      : `${ELSEWHERE}.`;
    return event === "registered" ? registered : "There is no evidence of this here.";
  }
  if (event === "registered" && isRefunded) {
    return order
      ? `The trees were registered, and refunded in full after they were ordered. ${REFUNDED_LATER}`
      : "The trees were registered, and refunded in full before they were ordered.";
  }
  if (isCompleted) {
    return importedFrom === null || event === "registered"
      ? completed
      : `${completed} Imported from ${importedFrom}.`;
  }
  return isRefunded && !order ? "The trees were refunded and are not ordered." : pending;
};

type Proof = NonNullable<PresentedMilestone["evidence"]>;

type Shown = {
  /** Returns the public URL of a reported one. */
  readonly urlOf: (url: string) => string;
  /** When the trees were registered, as the lists of the interface show it. */
  readonly createdAt: string;
};

type Verified = NonNullable<TreeEvidence["facts"]["planted_and_verified"]>;
type Planted = NonNullable<TreeEvidence["facts"]["planted"]>;

/** Returns the ids of a session. By default, those of planted trees follow from their order. */
const sessionIds = (
  { field_update_reference: fieldUpdate, planting_session_reference: session }: Verified | Planted,
  { order, idOf }: TreeEvidence,
) => {
  const orderId = order?.orderPublicId ?? "";
  return {
    field_update_id: idOf("field_update", fieldUpdate ?? `${orderId}/field-update`),
    planting_session_id: idOf("planting_session", session ?? `${orderId}/planting-session`),
  };
};

/** Returns the id of the verified allocation: the session's if the partner reports no allocations. */
const verifiedAllocationId = (fact: Verified, { idOf }: TreeEvidence): number =>
  idOf("allocation", fact.allocation_reference ?? fact.planting_session_reference);

/** Returns the photos and videos of planted trees; those of their verification if no planting was reported. */
const presentMedia = (evidence: TreeEvidence, { urlOf }: Shown) => {
  const { planted, planted_and_verified: verified } = evidence.facts;
  const photos = verified?.photos.map((url, index) => ({
    reference: `${sessionIds(verified, evidence).planting_session_id}-${index + 1}`,
    type: "photo",
    url,
    thumbnail_url: url,
    latitude: verified.latitude,
    longitude: verified.longitude,
  }));
  return (planted?.media ?? photos ?? []).map(({ reference: id, ...medium }) =>
    Object.assign({ id }, medium, {
      url: urlOf(medium.url),
      thumbnail_url: urlOf(medium.thumbnail_url),
    }),
  );
};

type Reached = { readonly at: string; readonly proof: Proof };

/** Presents when a milestone was reached, and what proves it; nothing while it is pending. */
const PROOFS: Readonly<
  Record<MilestoneEvent, (evidence: TreeEvidence, shown: Shown) => Reached | null | undefined>
> = {
  registered: ({ registration }, { createdAt }) => ({
    at: createdAt,
    proof: {
      tree_id: registration.id,
      record_id: registration.id,
      registered_at: createdAt,
      count: registration.count,
      fractional_count: registration.fractionalCount,
      attribution: registration.attribution,
    },
  }),
  funds_distributed: ({ registration, partnerName, order, facts: { funds_distributed: funds } }) =>
    funds &&
    order && {
      at: funds.occurred_at,
      proof: {
        partner: partnerName,
        order_id: order.orderId,
        order_public_id: order.orderPublicId,
        tree_order_id: order.treeOrderId,
        tree_order_public_id:
          order.treeOrderPublicId ?? `to_${registration.id.replaceAll("-", "")}`,
        tree_amount: order.treeCount,
        buyer_name: order.buyerName,
      },
    },
  allocated: ({ partnerName, idOf, facts: { allocated } }, { urlOf }) =>
    allocated && {
      at: allocated.occurred_at,
      proof: {
        partner: partnerName,
        allocations: allocated.allocations.map(
          ({ reference, date_allocated, planting_site: site, crew }) => ({
            allocation_id: idOf("allocation", reference),
            date_allocated,
            planting_site: {
              id: idOf("planting_site", site.reference),
              name: site.name,
              subsite_name: site.subsite_name,
              organization_name: site.organization_name,
              latitude: site.latitude,
              longitude: site.longitude,
              main_image: urlOf(site.main_image),
            },
            crew,
          }),
        ),
      },
    },
  planted: (evidence, shown) => {
    const { planted_and_verified: verified, planted = verified } = evidence.facts;
    // A verification proves planting even if the partner never reported it.
    return (
      planted && {
        at: planted.occurred_at,
        proof: {
          partner: evidence.partnerName,
          date_planted: planted.occurred_at,
          media: presentMedia(evidence, shown),
        },
      }
    );
  },
  planted_and_verified: (evidence, { urlOf }) => {
    const { planted_and_verified: verified } = evidence.facts;
    return (
      verified && {
        at: verified.occurred_at,
        proof: {
          partner: evidence.partnerName,
          planting_site_name: verified.planting_site.name,
          subsite_name: verified.planting_site.subsite_name,
          organization_name: verified.planting_site.organization_name,
          assessor_name: verified.assessor_name,
          verifier: verified.verifier,
          date_verified: verified.occurred_at,
          session_total_planted: verified.session_total_planted,
          species: verified.species,
          image_url: urlOf(verified.image_url),
          allocation_id: verifiedAllocationId(verified, evidence),
          ...sessionIds(verified, evidence),
          latitude: String(verified.latitude),
          longitude: String(verified.longitude),
          photos: verified.photos.map(urlOf),
        },
      }
    );
  },
};

const presentMilestone = (
  event: MilestoneEvent,
  step: number,
  evidence: TreeEvidence,
  shown: Shown,
): PresentedMilestone => {
  const [title] = TEXTS[event];
  const reached = PROOFS[event](evidence, shown);
  const description = describe(event, Boolean(reached), evidence);
  return reached
    ? {
        step,
        event,
        title,
        status: "completed",
        date: reached.at.slice(0, 10),
        timestamp: reached.at,
        description,
        evidence: reached.proof,
      }
    : { step, event, title, status: "pending", description };
};

/** Presents the ids that are known so far: the first allocation, else the verified one, and the latest session. */
const presentProviderMeta = (evidence: TreeEvidence): PresentedTreeEvidence["provider_meta"] => {
  const { order, idOf } = evidence;
  const { allocated, planted, planted_and_verified: verified } = evidence.facts;
  const [allocation] = allocated?.allocations ?? [];
  const session = verified ?? planted;
  return {
    ...(order && { order_id: order.orderId, public_id: order.orderPublicId }),
    ...(verified && { allocation_id: verifiedAllocationId(verified, evidence) }),
    ...(allocation && { allocation_id: idOf("allocation", allocation.reference) }),
    ...(session && sessionIds(session, evidence)),
  };
};

/** @param baseUrl the public URL of this service, without a slash at the end */
export const presentTreeEvidence = (
  evidence: TreeEvidence,
  baseUrl: string,
  createdAt = evidence.registration.createdAt.toISOString(),
): PresentedTreeEvidence => {
  const { registration, importedFrom } = evidence;
  const shown = { urlOf: (url: string) => absoluteUrl(url, baseUrl), createdAt };
  return {
    tree_id: registration.id,
    record_id: registration.id,
    impact_type: "trees",
    impact_provider: evidence.partnerName,
    simulated: evidence.isSimulated,
    ...(importedFrom !== null && { imported_from: importedFrom }),
    status: furthestMilestone(evidence),
    refunded: registration.refundedCount > 0,
    refunded_count: registration.refundedCount,
    provider_meta: presentProviderMeta(evidence),
    timeline: MILESTONES[evidence.shape].map((event, index) =>
      presentMilestone(event, index + 1, evidence, shown),
    ),
  };
};
