import type { Mode } from "../accounts/accounts.ts";
import type { ForestType } from "./impactFactors.ts";

/** What a planting order goes through, in this order. */
export const PLANTING_STAGES = [
  "funds_distributed",
  "allocated",
  "planted",
  "planted_and_verified",
] as const;
export type PlantingStage = (typeof PLANTING_STAGES)[number];

/** How far an order has come; gathered at first. */
export const ORDER_STAGES = ["created", ...PLANTING_STAGES] as const;
export type OrderStage = (typeof ORDER_STAGES)[number];

/** Which milestones a partner reports: allocations and planting, or only verified planting sessions. */
export const TIMELINE_SHAPES = ["allocations", "sessions"] as const;
export type TimelineShape = (typeof TIMELINE_SHAPES)[number];

/** Who may plant; `simulated` makes it up. */
export const PARTNER_KINDS = ["simulated", "manual", "treemapper"] as const;
export type PartnerKind = (typeof PARTNER_KINDS)[number];

/** Where a part of an order's trees stands. Weights are whole numbers of at least 1, and relative. */
export type SiteShare = {
  readonly siteId: number;
  readonly region: string;
  readonly forestType: ForestType;
  readonly weight: number;
};

/** A batch of an account's trees that a partner plants. */
export type PlantingOrder = {
  readonly id: number;
  /** The name that partners and operators know it by. */
  readonly publicId: string;
  readonly accountId: string;
  readonly mode: Mode;
  /** Which adapter it was placed with. */
  readonly partner: string;
  readonly partnerName: string;
  readonly buyerName: string;
  readonly timeline: TimelineShape;
  readonly treeCount: number;
  /** Trees refunded after the order was made. */
  readonly refundedCount: number;
  /** The partner's own name for it. */
  readonly partnerReference: string | null;
  readonly stage: OrderStage;
  readonly revision: number;
  readonly siteShares: readonly SiteShare[];
  readonly createdAt: Date;
  readonly plantedAt: Date | null;
  readonly verifiedAt: Date | null;
};

/** The stages that must be known before one can take effect. */
const prerequisitesOf = (
  stage: PlantingStage,
  timeline: TimelineShape,
): readonly PlantingStage[] => {
  switch (stage) {
    case "funds_distributed":
      return [];
    case "allocated":
      return ["funds_distributed"];
    case "planted":
      return ["funds_distributed", "allocated"];
    case "planted_and_verified":
      return timeline === "allocations"
        ? ["funds_distributed", "allocated"]
        : ["funds_distributed"];
  }
};

/** What is known of a stage that has been reached. */
export type ReachedStage = {
  readonly stage: PlantingStage;
  readonly occurredAt: Date;
  readonly digest: string;
};

/** What becomes of a reported fact. Repeated ones are not even kept. */
export type FactDecision =
  | { readonly state: "accepted" | "repeated" | "waiting" }
  | { readonly state: "contradiction"; readonly reason: string };

/** Partners report days, and days begin at different instants: a difference within one says nothing. */
const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Decides what becomes of a fact, whatever the order in which facts arrive: a stage is reached once and never goes back.
 * @param reached the stages in force
 */
export const decideFact = (
  timeline: TimelineShape,
  reached: readonly ReachedStage[],
  fact: ReachedStage,
): FactDecision => {
  const known = reached.find(({ stage }) => stage === fact.stage);
  if (known) {
    return known.digest === fact.digest
      ? { state: "repeated" }
      : { state: "contradiction", reason: `${fact.stage} is on record with other details` };
  }
  const needed = prerequisitesOf(fact.stage, timeline);
  if (needed.some((stage) => !reached.some((earlier) => earlier.stage === stage))) {
    return { state: "waiting" };
  }
  const rank = PLANTING_STAGES.indexOf(fact.stage);
  const wrong = reached.find(({ stage, occurredAt }) => {
    const difference = fact.occurredAt.getTime() - occurredAt.getTime();
    return PLANTING_STAGES.indexOf(stage) < rank ? difference < -DAY_MS : difference > DAY_MS;
  });
  return wrong
    ? {
        state: "contradiction",
        reason: `${fact.stage} is dated ${fact.occurredAt.toISOString()}, ${wrong.stage} ${wrong.occurredAt.toISOString()}`,
      }
    : { state: "accepted" };
};

/** The last stage of those that are reached. */
export const latestStage = (stages: readonly PlantingStage[]): OrderStage =>
  PLANTING_STAGES.findLast((stage) => stages.includes(stage)) ?? "created";
