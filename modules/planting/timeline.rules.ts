import type {
  AllocatedEvidence,
  PlantedEvidence,
  SessionIds,
  VerifiedEvidence,
} from "./evidence.rules.ts";
import type { OrderStage, PlantingStage } from "./order.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { latestStage, PLANTING_STAGES } from "./order.rules.ts";

/** A milestone that was reached, with its proof. */
type Reached<Evidence> = { readonly occurredAt: Date; readonly evidence: Evidence };

/** The stages that a planting order has reached. */
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

export const MILESTONE_EVENTS = ["registered", ...PLANTING_STAGES] as const;
export type MilestoneEvent = (typeof MILESTONE_EVENTS)[number];

/** The values that `evidence_stage` accepts, earliest first. */
export const EVIDENCE_STAGES = [
  "registered",
  "funds_distributed",
  "planted",
  "planted_and_verified",
] as const satisfies readonly MilestoneEvent[];
export type EvidenceStage = (typeof EVIDENCE_STAGES)[number];

type RegisteredTrees = {
  readonly id: string;
  readonly createdAt: Date;
  /** `createdAt` in microseconds, as a store's list shows it. */
  readonly position: string;
  readonly count: number;
  readonly fractionalCount: number;
  readonly attribution: string;
};

/** The registration's part of its planting order. */
export type OrderedTrees = {
  readonly orderId: number;
  readonly orderPublicId: string;
  readonly treeOrderId: number;
  /** Null for the one that follows from the registration's id. */
  readonly treeOrderPublicId: string | null;
  readonly treeCount: number;
  readonly buyerName: string;
};

export type EvidenceFacts = {
  readonly registration: RegisteredTrees & {
    readonly refundedCount: number;
    /** Another system has arranged the planting. */
    readonly isOrderedElsewhere: boolean;
  };
  readonly partnerName: string;
  /** Whether no trees are planted for this evidence. */
  readonly isSimulated: boolean;
  /** The system that has shown this evidence before; null if it was recorded here. */
  readonly importedFrom: string | null;
  readonly shape: TimelineShape;
  /** Null until the registration is in a planting order. */
  readonly order: OrderedTrees | null;
  readonly reached: ReachedStages;
  /** The region of the first site; null until one is known. */
  readonly region: string | null;
};

/** One step of a timeline. A pending one has not been reached. */
type MilestoneOf<Event extends MilestoneEvent, Evidence> = {
  readonly event: Event;
  readonly reached: Reached<Evidence> | null;
};

export type Milestone =
  | MilestoneOf<"registered", RegisteredTrees>
  | MilestoneOf<"funds_distributed", OrderedTrees>
  | MilestoneOf<"allocated", AllocatedEvidence>
  | MilestoneOf<"planted", PlantedEvidence>
  | MilestoneOf<"planted_and_verified", VerifiedEvidence>;

/** The proof of one tree registration. */
export type TreeEvidence = Pick<
  EvidenceFacts,
  "partnerName" | "isSimulated" | "importedFrom" | "order" | "region"
> & {
  readonly registration: RegisteredTrees;
  readonly status: MilestoneEvent;
  /** The first reported allocation, else the verified one. */
  readonly allocationId: number | null;
  /** The verified session, else the planted one. */
  readonly session: SessionIds | null;
  readonly refundedCount: number;
  /** `beforeOrder`: all trees were refunded before they were ordered; `afterOrder`: all were refunded later. */
  readonly fullRefund: "beforeOrder" | "afterOrder" | null;
  /** Another system has arranged the planting, and there is no record of it here. */
  readonly isOrderedElsewhere: boolean;
  readonly timeline: readonly Milestone[];
};

/** Returns the proof of planting; a verification proves it even if the partner never reported planting. */
const plantedOf = ({ planted, verified }: ReachedStages): Reached<PlantedEvidence> | null => {
  if (planted || !verified) {
    return planted;
  }
  const { occurredAt, evidence } = verified;
  return {
    occurredAt,
    evidence: {
      plantedAt: evidence.verifiedAt,
      fieldUpdateId: evidence.fieldUpdateId,
      plantingSessionId: evidence.plantingSessionId,
      media: evidence.photos.map((url, index) => ({
        id: `${evidence.plantingSessionId}-${index + 1}`,
        type: "photo",
        url,
        thumbnailUrl: url,
        latitude: evidence.latitude,
        longitude: evidence.longitude,
      })),
    },
  };
};

/** The milestones of each timeline: four events, or three steps. */
const MILESTONES = {
  allocations: ["registered", "funds_distributed", "allocated", "planted"],
  sessions: ["registered", "funds_distributed", "planted_and_verified"],
} as const satisfies Record<TimelineShape, readonly MilestoneEvent[]>;

const milestoneOf = (
  event: MilestoneEvent,
  { registration, order, reached }: EvidenceFacts,
): Milestone => {
  switch (event) {
    case "registered":
      return { event, reached: { occurredAt: registration.createdAt, evidence: registration } };
    case "funds_distributed":
      return {
        event,
        reached: reached.fundsDistributed &&
          order && { occurredAt: reached.fundsDistributed.occurredAt, evidence: order },
      };
    case "allocated":
      return { event, reached: reached.allocated };
    case "planted":
      return { event, reached: plantedOf(reached) };
    case "planted_and_verified":
      return { event, reached: reached.verified };
  }
};

const stagesOf = (reached: ReachedStages): readonly PlantingStage[] => [
  ...(reached.fundsDistributed ? (["funds_distributed"] as const) : []),
  ...(reached.allocated ? (["allocated"] as const) : []),
  ...(reached.planted ? (["planted"] as const) : []),
  ...(reached.verified ? (["planted_and_verified"] as const) : []),
];

const fullRefundOf = ({ registration, order }: EvidenceFacts): TreeEvidence["fullRefund"] => {
  if (registration.refundedCount < registration.count) {
    return null;
  }
  return order ? "afterOrder" : "beforeOrder";
};

export const buildTreeEvidence = (facts: EvidenceFacts): TreeEvidence => {
  const { registration, partnerName, isSimulated, importedFrom, order, reached, region } = facts;
  const stage = latestStage(stagesOf(reached));
  return {
    registration,
    partnerName,
    isSimulated,
    importedFrom,
    order,
    region,
    status: stage === "created" ? "registered" : stage,
    allocationId:
      reached.allocated?.evidence.allocations[0]?.allocationId ??
      reached.verified?.evidence.allocationId ??
      null,
    session: reached.verified?.evidence ?? reached.planted?.evidence ?? null,
    refundedCount: registration.refundedCount,
    fullRefund: fullRefundOf(facts),
    isOrderedElsewhere: registration.isOrderedElsewhere,
    timeline: MILESTONES[facts.shape].map((event) => milestoneOf(event, facts)),
  };
};

/** Returns whether the timeline of an order at this stage cannot change any more. */
export const isTimelineComplete = (shape: TimelineShape, stage: OrderStage): boolean =>
  stage === "planted_and_verified" || (shape === "allocations" && stage === "planted");

/** An order as far as it decides whether its evidence may still change. Null without an order. */
type OrderProgress = {
  readonly timeline: TimelineShape | null;
  readonly stage: OrderStage | null;
  /** Whether its partner is no longer polled. An imported order never is, whatever it has reached. */
  readonly isFinished: boolean;
};

/** Returns whether an order's evidence is expected to stay as it is. */
export const isExpectedToStay = ({ timeline, stage, isFinished }: OrderProgress): boolean =>
  isFinished && timeline !== null && stage !== null && isTimelineComplete(timeline, stage);
