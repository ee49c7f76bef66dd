import type { AcceptedFacts, PlantingFactOf } from "./fact.rules.ts";
import type { OrderStage } from "./order.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { latestStage, PLANTING_STAGES } from "./order.rules.ts";

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
  readonly refundedCount: number;
  /** Another system has arranged the planting, and there is no record of it here. */
  readonly isOrderedElsewhere: boolean;
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

/** What the evidence of one tree registration is made of. */
export type EvidenceFacts = {
  readonly registration: RegisteredTrees;
  readonly partnerName: string;
  /** Whether no trees are planted for this evidence. */
  readonly isSimulated: boolean;
  /** The system that has shown this evidence before; null if it was recorded here. */
  readonly importedFrom: string | null;
  readonly shape: TimelineShape;
  /** Null until the registration is in a planting order. */
  readonly order: OrderedTrees | null;
  readonly facts: AcceptedFacts;
  /** The region of the first site; null until one is known. */
  readonly region: string | null;
  /** Returns the integer that evidence shows for a partner's reference. */
  readonly idOf: (
    kind: "allocation" | "field_update" | "planting_session" | "planting_site",
    reference: string,
  ) => number;
};

/** The trees in the ground. */
type Planted = Pick<PlantingFactOf<"planted">, "occurred_at" | "media">;

/** One step of a timeline, with what proves it; null while it is pending. */
type MilestoneOf<Event extends MilestoneEvent, Proof> = {
  readonly event: Event;
  readonly reached: { readonly at: string; readonly proof: Proof } | null;
};
export type Milestone =
  | MilestoneOf<"registered", RegisteredTrees>
  | MilestoneOf<"funds_distributed", OrderedTrees>
  | MilestoneOf<"allocated", PlantingFactOf<"allocated">>
  | MilestoneOf<"planted", Planted>
  | MilestoneOf<"planted_and_verified", PlantingFactOf<"planted_and_verified">>;

/** The ids of a planting session and of the partner's report of it. */
type SessionIds = { readonly fieldUpdateId: number; readonly plantingSessionId: number };

/** The proof of one tree registration. */
export type TreeEvidence = EvidenceFacts & {
  readonly status: MilestoneEvent;
  /** The first reported allocation, else the verified one. */
  readonly allocationId: number | null;
  /** The verified session, else the planted one. */
  readonly session: SessionIds | null;
  /** `beforeOrder`: all trees were refunded before they were ordered; `afterOrder`: all were refunded later. */
  readonly fullRefund: "beforeOrder" | "afterOrder" | null;
  readonly timeline: readonly Milestone[];
};

/** Returns the ids of a session. By default, those of planted trees follow from their order. */
const sessionIds = (
  fact: Pick<PlantingFactOf<"planted">, "field_update_reference" | "planting_session_reference">,
  { order, idOf }: EvidenceFacts,
): SessionIds => {
  const orderId = order?.orderPublicId ?? "";
  return {
    fieldUpdateId: idOf("field_update", fact.field_update_reference ?? `${orderId}/field-update`),
    plantingSessionId: idOf(
      "planting_session",
      fact.planting_session_reference ?? `${orderId}/planting-session`,
    ),
  };
};

/** Returns the id of the verified allocation: the session's if the partner reports no allocations. */
export const verifiedAllocationId = (
  fact: PlantingFactOf<"planted_and_verified">,
  { idOf }: Pick<EvidenceFacts, "idOf">,
): number => idOf("allocation", fact.allocation_reference ?? fact.planting_session_reference);

/** Returns the proof of planting; a verification proves it even if the partner never reported planting. */
const plantedOf = (evidence: EvidenceFacts): Planted | null => {
  const { planted, planted_and_verified: verified } = evidence.facts;
  if (planted || !verified) {
    return planted ?? null;
  }
  const { occurred_at, latitude, longitude, photos } = verified;
  const { plantingSessionId } = sessionIds(verified, evidence);
  return {
    occurred_at,
    media: photos.map((url, index) => ({
      reference: `${plantingSessionId}-${index + 1}`,
      type: "photo",
      url,
      thumbnail_url: url,
      latitude,
      longitude,
    })),
  };
};

/** The milestones of each timeline: four events, or three steps. */
const MILESTONES = {
  allocations: ["registered", "funds_distributed", "allocated", "planted"],
  sessions: ["registered", "funds_distributed", "planted_and_verified"],
} as const satisfies Record<TimelineShape, readonly MilestoneEvent[]>;

const reachedBy = <Proof extends { readonly occurred_at: string }>(
  fact: Proof | null | undefined,
) => (fact ? { at: fact.occurred_at, proof: fact } : null);

const milestoneOf = (event: MilestoneEvent, evidence: EvidenceFacts): Milestone => {
  const { registration, order, facts } = evidence;
  switch (event) {
    case "registered":
      return { event, reached: { at: registration.createdAt.toISOString(), proof: registration } };
    case "funds_distributed": {
      const { funds_distributed: funds } = facts;
      return { event, reached: funds && order ? { at: funds.occurred_at, proof: order } : null };
    }
    case "allocated":
      return { event, reached: reachedBy(facts.allocated) };
    case "planted":
      return { event, reached: reachedBy(plantedOf(evidence)) };
    case "planted_and_verified":
      return { event, reached: reachedBy(facts.planted_and_verified) };
  }
};

const fullRefundOf = ({ registration, order }: EvidenceFacts): TreeEvidence["fullRefund"] => {
  if (registration.refundedCount < registration.count) {
    return null;
  }
  return order ? "afterOrder" : "beforeOrder";
};

export const buildTreeEvidence = (evidence: EvidenceFacts): TreeEvidence => {
  const { facts, shape, idOf } = evidence;
  const { allocated, planted, planted_and_verified: verified } = facts;
  const stage = latestStage(PLANTING_STAGES.filter((reached) => facts[reached] !== undefined));
  const session = verified ?? planted;
  const allocation = allocated?.allocations[0];
  return {
    ...evidence,
    status: stage === "created" ? "registered" : stage,
    allocationId: allocation
      ? idOf("allocation", allocation.reference)
      : verified
        ? verifiedAllocationId(verified, evidence)
        : null,
    session: session ? sessionIds(session, evidence) : null,
    fullRefund: fullRefundOf(evidence),
    timeline: MILESTONES[shape].map((event) => milestoneOf(event, evidence)),
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
