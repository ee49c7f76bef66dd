import { z } from "zod";
import type { AcceptedFacts } from "./fact.rules.ts";
import type { OrderStage } from "./order.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { latestStage, PLANTING_STAGES } from "./order.rules.ts";

export const MILESTONE_EVENTS = ["registered", ...PLANTING_STAGES] as const;
export type MilestoneEvent = (typeof MILESTONE_EVENTS)[number];

export const EVIDENCE_STAGES = [
  "registered",
  "funds_distributed",
  "planted",
  "planted_and_verified",
] as const satisfies readonly MilestoneEvent[];
export type EvidenceStage = (typeof EVIDENCE_STAGES)[number];

export const orderedTrees = z.strictObject({
  orderId: z.int(),
  orderPublicId: z.string(),
  treeOrderId: z.int(),
  /** Null for the one that follows from the registration's id. */
  treeOrderPublicId: z.string().nullable(),
  treeCount: z.int(),
  buyerName: z.string(),
});
export type OrderedTrees = Readonly<z.output<typeof orderedTrees>>;

/** The evidence of one tree registration. */
export type TreeEvidence = {
  readonly registration: {
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
  readonly partnerName: string;
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

/** Returns the furthest milestone that the trees have reached. */
export const furthestMilestone = ({ facts }: TreeEvidence): MilestoneEvent => {
  const stage = latestStage(PLANTING_STAGES.filter((reached) => facts[reached] !== undefined));
  return stage === "created" ? "registered" : stage;
};

/** The milestones of each timeline: four events, or three steps. */
export const MILESTONES = {
  allocations: ["registered", "funds_distributed", "allocated", "planted"],
  sessions: ["registered", "funds_distributed", "planted_and_verified"],
} as const satisfies Record<TimelineShape, readonly MilestoneEvent[]>;

/** Returns whether the timeline of an order at this stage cannot change any more. */
export const isTimelineComplete = (shape: TimelineShape, stage: OrderStage): boolean =>
  stage === "planted_and_verified" || (shape === "allocations" && stage === "planted");
