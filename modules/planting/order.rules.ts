import type { PartnerKind, TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import type { Mode } from "../records/owner.rules.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import type { ForestType } from "./impactFactors.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";

/** The stages of a planting order, in order. */
export const PLANTING_STAGES = [
  "funds_distributed",
  "allocated",
  "planted",
  "planted_and_verified",
] as const;
export type PlantingStage = (typeof PLANTING_STAGES)[number];

/** The progress of an order. */
export const ORDER_STAGES = ["created", ...PLANTING_STAGES] as const;
export type OrderStage = (typeof ORDER_STAGES)[number];

/** Returns whether a partner plants nothing. */
export const isSimulated = (partner: string): boolean =>
  partner === ("simulated" satisfies PartnerKind);

/**
 * Returns the partner whose trees these are, or will be.
 * @param partner that of their order; null while they have none
 * @param configured the deployment's partner for new orders of their mode
 * @returns null if another system has arranged the planting
 */
export const expectedPartner = (
  {
    partner,
    isOrderedElsewhere,
  }: { readonly partner: string | null; readonly isOrderedElsewhere: boolean },
  configured: string,
): string | null => partner ?? (isOrderedElsewhere ? null : configured);

/** The part of an order's trees at one site. Weights are integers of at least 1; only their proportions matter. */
export type SiteShare = {
  readonly siteId: number;
  readonly region: string;
  readonly forestType: ForestType;
  readonly weight: number;
  /** The impact factor of its trees; null until they are planted. */
  readonly factorId: string | null;
};

/** A batch of an account's trees that a partner plants. */
export type PlantingOrder = {
  readonly id: number;
  /** The id that partners and operators use. */
  readonly publicId: string;
  /** The ids that clients see in evidence and events: of an imported order, those of the other system. */
  readonly shownId: number;
  readonly shownPublicId: string;
  readonly accountId: string;
  readonly mode: Mode;
  /** The kind of the partner's adapter. */
  readonly partner: string;
  readonly partnerName: string;
  readonly buyerName: string;
  readonly timeline: TimelineShape;
  readonly treeCount: number;
  /** Trees refunded after the order was created. */
  readonly refundedCount: number;
  /** The partner's name for the order. */
  readonly partnerReference: string | null;
  readonly stage: OrderStage;
  readonly revision: number;
  readonly siteShares: readonly SiteShare[];
  readonly createdAt: Date;
  readonly plantedAt: Date | null;
  readonly verifiedAt: Date | null;
};

/** Returns why a report cannot change the shape of an order's timeline, or null. */
export const findTimelineProblem = ({
  partner,
  stage,
  timeline,
}: Pick<PlantingOrder, "partner" | "stage" | "timeline">): string | null => {
  if (partner !== ("manual" satisfies PartnerKind)) {
    return `timeline: is ${timeline}, as the partner ${partner} decides`;
  }
  return stage === "created" || stage === "funds_distributed"
    ? null
    : `timeline: is ${timeline}, and cannot change because the order is ${stage}`;
};

/** Returns the stages that must be reached before a stage can be. */
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

export type ReachedStage = {
  readonly stage: PlantingStage;
  readonly occurredAt: Date;
  readonly digest: string;
};

/** What to do with a reported fact. Repeated facts are not stored. */
export type FactDecision =
  | { readonly state: "accepted" | "repeated" | "waiting" }
  | { readonly state: "contradiction"; readonly reason: string };

/** Partners report days, and days start at different times. */
const TOLERANCE_MS = DAY_MS;

/**
 * Decides whether a fact is accepted. Facts may arrive in any order; a stage is reached once and never reverted.
 * @param reached the accepted facts
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
      : {
          state: "contradiction",
          reason: `${fact.stage} is already recorded with different details`,
        };
  }
  const needed = prerequisitesOf(fact.stage, timeline);
  if (needed.some((stage) => !reached.some((earlier) => earlier.stage === stage))) {
    return { state: "waiting" };
  }
  const rank = PLANTING_STAGES.indexOf(fact.stage);
  const wrong = reached.find(({ stage, occurredAt }) => {
    const difference = fact.occurredAt.getTime() - occurredAt.getTime();
    return PLANTING_STAGES.indexOf(stage) < rank
      ? difference < -TOLERANCE_MS
      : difference > TOLERANCE_MS;
  });
  return wrong
    ? {
        state: "contradiction",
        reason: `${fact.stage} is dated ${fact.occurredAt.toISOString()}, but ${wrong.stage} ${wrong.occurredAt.toISOString()}`,
      }
    : { state: "accepted" };
};

/** An order has four stages, so a partner that reports more facts than this does not repeat what it has reported. */
const MAXIMUM_UNSETTLED_FACTS = 100;

/**
 * Returns why a partner cannot report another fact that waits or contradicts, or null.
 * @param unsettledCount the facts of the order that wait or contradict, with this one
 */
export const findUnsettledProblem = (unsettledCount: number): string | null =>
  unsettledCount > MAXIMUM_UNSETTLED_FACTS
    ? `the order has ${MAXIMUM_UNSETTLED_FACTS} facts that wait for others or contradict them. It accepts no further ` +
      "such fact until an operator has withdrawn one"
    : null;

/** Returns the furthest of the reached stages. */
export const latestStage = (stages: readonly PlantingStage[]): OrderStage =>
  PLANTING_STAGES.findLast((stage) => stages.includes(stage)) ?? "created";

/** The partner of planting orders that were imported. No adapter serves it: such orders are never polled. */
export const IMPORTED_PARTNER = "imported";

/** Returns the reference of a record in another system. Systems number their records alike, so its name is a part of it. */
export const importedReference = (source: string, id: number): string => `${source}/${id}`;

/** Returns the id that evidence shows for a reference of an imported order: the other system's; null if it has none. */
export const findImportedReferenceId = (partner: string, reference: string): number | null => {
  const digits = /\/(\d{1,16})$/u.exec(reference)?.[1];
  const id = Number(digits ?? Number.NaN);
  return partner === IMPORTED_PARTNER && Number.isSafeInteger(id) ? id : null;
};

export const ORDER_NOT_FOUND = "failed to find planting order";

/** @throws DomainError record_not_found if there is no order */
export const requireOrder = (order: PlantingOrder | null): PlantingOrder => {
  if (order === null) {
    throw new DomainError("record_not_found", ORDER_NOT_FOUND);
  }
  return order;
};
