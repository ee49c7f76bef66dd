import type { OrderStage, PlantingStage, TimelineShape } from "./order.ts";
import { latestStage } from "./order.ts";
import type {
  AllocatedEvidence,
  Milestone,
  MilestoneEvent,
  PlantedEvidence,
  TreeEvidence,
  VerifiedEvidence,
} from "./treeEvidence.ts";

/** A stage that an order has reached, with what it shows. */
type Reached<Evidence> = { readonly occurredAt: Date; readonly evidence: Evidence };

export type ReachedStages = {
  readonly fundsDistributed: Reached<null> | null;
  readonly allocated: Reached<AllocatedEvidence> | null;
  readonly planted: Reached<PlantedEvidence> | null;
  readonly verified: Reached<VerifiedEvidence> | null;
};

export const NOTHING_REACHED: ReachedStages = {
  fundsDistributed: null,
  allocated: null,
  planted: null,
  verified: null,
};

/** The registration's part of an order. */
export type OrderedTrees = {
  readonly orderId: number;
  readonly orderPublicId: string;
  readonly treeOrderId: number;
  readonly treeCount: number;
  readonly buyerName: string;
};

export type EvidenceFacts = {
  readonly registration: {
    readonly id: string;
    readonly createdAt: Date;
    readonly count: number;
    readonly fractionalCount: number;
    readonly attribution: string;
    /** Whether all of its trees were refunded. */
    readonly isRefunded: boolean;
  };
  readonly partnerName: string;
  readonly shape: TimelineShape;
  /** Null until the registration is gathered. */
  readonly order: OrderedTrees | null;
  readonly reached: ReachedStages;
};

const TITLES: Readonly<Record<MilestoneEvent, readonly [title: string, description: string]>> = {
  registered: [
    "Registered",
    "The trees are on record and will be part of the next planting order.",
  ],
  funds_distributed: ["Funds distributed", "The planting partner has the order and its funds."],
  allocated: ["Allocated", "Planting sites and crews are assigned to the trees."],
  planted: ["Planted", "The trees are in the ground."],
  planted_and_verified: [
    "Planted and verified",
    "The trees are in the ground, and somebody else has checked that they are.",
  ],
};

/** Of trees that were refunded before anybody had ordered them. */
const NEVER_ORDERED = "The trees were refunded before they were ordered, and will not be planted.";

/** A site's path on this service becomes an address that works anywhere. */
export const absoluteUrl = (address: string, baseUrl: string): string =>
  address.startsWith("/") ? `${baseUrl}${address}` : address;

/** Verification proves planting, also where the partner never reported it as such. */
const plantedOf = ({ planted, verified }: ReachedStages): Reached<PlantedEvidence> | null => {
  if (planted || !verified) {
    return planted;
  }
  const { occurredAt, evidence } = verified;
  return {
    occurredAt,
    evidence: {
      date_planted: evidence.date_verified,
      media: evidence.photos.map((url, index) => ({
        id: `${evidence.planting_session_id}-${index + 1}`,
        type: "photo",
        url,
        thumbnail_url: url,
        latitude: Number(evidence.latitude),
        longitude: Number(evidence.longitude),
      })),
    },
  };
};

type Completion = { readonly at: Date; readonly evidence: NonNullable<Milestone["evidence"]> };

const completionsOf = (
  { registration, partnerName: partner, order, reached }: EvidenceFacts,
  baseUrl: string,
): Readonly<Record<MilestoneEvent, Completion | null>> => {
  const { fundsDistributed, allocated, verified } = reached;
  const planted = plantedOf(reached);
  return {
    registered: {
      at: registration.createdAt,
      evidence: {
        tree_id: registration.id,
        record_id: registration.id,
        registered_at: registration.createdAt.toISOString(),
        count: registration.count,
        fractional_count: registration.fractionalCount,
        attribution: registration.attribution,
      },
    },
    funds_distributed: fundsDistributed &&
      order && {
        at: fundsDistributed.occurredAt,
        evidence: {
          partner,
          order_id: order.orderId,
          order_public_id: order.orderPublicId,
          tree_order_id: order.treeOrderId,
          tree_order_public_id: `to_${registration.id.replaceAll("-", "")}`,
          tree_amount: order.treeCount,
          buyer_name: order.buyerName,
        },
      },
    allocated: allocated && {
      at: allocated.occurredAt,
      evidence: {
        partner,
        allocations: allocated.evidence.allocations.map(
          ({ allocation_id, date_allocated, planting_site: site, crew }) => ({
            allocation_id,
            date_allocated,
            planting_site: Object.assign({}, site, {
              main_image: absoluteUrl(site.main_image, baseUrl),
            }),
            crew,
          }),
        ),
      },
    },
    planted: planted && {
      at: planted.occurredAt,
      evidence: {
        partner,
        date_planted: planted.evidence.date_planted,
        media: planted.evidence.media.map((media) =>
          Object.assign({}, media, {
            url: absoluteUrl(media.url, baseUrl),
            thumbnail_url: absoluteUrl(media.thumbnail_url, baseUrl),
          }),
        ),
      },
    },
    planted_and_verified: verified && {
      at: verified.occurredAt,
      evidence: {
        partner,
        ...verified.evidence,
        image_url: absoluteUrl(verified.evidence.image_url, baseUrl),
        photos: verified.evidence.photos.map((photo) => absoluteUrl(photo, baseUrl)),
      },
    },
  };
};

const EVENTS_OF = {
  allocations: ["registered", "funds_distributed", "allocated", "planted"],
  sessions: ["registered", "funds_distributed", "planted_and_verified"],
} as const satisfies Record<TimelineShape, readonly MilestoneEvent[]>;

const stagesOf = (reached: ReachedStages): readonly PlantingStage[] => [
  ...(reached.fundsDistributed ? (["funds_distributed"] as const) : []),
  ...(reached.allocated ? (["allocated"] as const) : []),
  ...(reached.planted ? (["planted"] as const) : []),
  ...(reached.verified ? (["planted_and_verified"] as const) : []),
];

const milestoneOf = (
  event: MilestoneEvent,
  step: number,
  completion: Completion | null,
  isNeverOrdered: boolean,
): Milestone => {
  const [title, usual] = TITLES[event];
  const description = event === "registered" && isNeverOrdered ? NEVER_ORDERED : usual;
  if (!completion) {
    return { step, event, title, status: "pending", description };
  }
  const { at, evidence } = completion;
  const timestamp = at.toISOString();
  return {
    step,
    event,
    title,
    status: "completed",
    date: timestamp.slice(0, 10),
    timestamp,
    description,
    evidence,
  };
};

/**
 * Tells what is proven of a tree registration.
 * @param baseUrl where this service can be reached, for the addresses of what it serves itself
 */
export const buildTreeEvidence = (facts: EvidenceFacts, baseUrl: string): TreeEvidence => {
  const { registration, order, reached, shape } = facts;
  const completions = completionsOf(facts, baseUrl);
  const stage = latestStage(stagesOf(reached));
  const allocationId =
    reached.allocated?.evidence.allocations[0]?.allocation_id ??
    reached.verified?.evidence.allocation_id;
  return {
    tree_id: registration.id,
    record_id: registration.id,
    impact_type: "trees",
    impact_provider: facts.partnerName,
    status: stage === "created" ? "registered" : stage,
    provider_meta: {
      ...(order && { order_id: order.orderId, public_id: order.orderPublicId }),
      ...(allocationId !== undefined && { allocation_id: allocationId }),
      ...(reached.verified && {
        field_update_id: reached.verified.evidence.field_update_id,
        planting_session_id: reached.verified.evidence.planting_session_id,
      }),
    },
    timeline: EVENTS_OF[shape].map((event, index) =>
      milestoneOf(event, index + 1, completions[event], registration.isRefunded && !order),
    ),
  };
};

/** Whether nothing is left to happen to the timeline of an order at a stage. */
export const isTimelineComplete = (shape: TimelineShape, stage: OrderStage): boolean =>
  stage === "planted_and_verified" || (shape === "allocations" && stage === "planted");
