import type { PartnerKind, TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";

export const PLANTING_STAGES = [
  "funds_distributed",
  "allocated",
  "planted",
  "planted_and_verified",
] as const;
export type PlantingStage = (typeof PLANTING_STAGES)[number];

export const ORDER_STAGES = ["created", ...PLANTING_STAGES] as const;
export type OrderStage = (typeof ORDER_STAGES)[number];

export const isSimulated = (partner: string): boolean =>
  partner === ("simulated" satisfies PartnerKind);

/**
 * Returns the partner whose trees these are, or will be; null if another system has arranged the planting.
 * @param configured the deployment's partner for new orders of their mode
 */
export const expectedPartner = (
  tree: { readonly partner: string | null; readonly isOrderedElsewhere: boolean },
  configured: string,
): string | null => tree.partner ?? (tree.isOrderedElsewhere ? null : configured);

/** Returns the stages that an order must have reached before. */
const prerequisitesOf = (stage: PlantingStage, timeline: TimelineShape) => {
  if (stage === "funds_distributed") {
    return [];
  }
  const isAllocated =
    stage === "planted" || (stage === "planted_and_verified" && timeline === "allocations");
  return isAllocated ? ["funds_distributed", "allocated"] : ["funds_distributed"];
};

export type ReachedStage = { readonly stage: PlantingStage; readonly occurredAt: Date };

export type FactDecision =
  | { readonly state: "accepted" | "waiting"; readonly reason: null }
  | { readonly state: "contradiction"; readonly reason: string };

/** Partners report days, and days start at different times. */
const TOLERANCE_MS = DAY_MS;

const rankOf = ({ stage }: Pick<ReachedStage, "stage">): number => PLANTING_STAGES.indexOf(stage);

/** @param reached the facts in effect */
export const decideFact = (
  timeline: TimelineShape,
  reached: readonly ReachedStage[],
  fact: ReachedStage,
): FactDecision => {
  const { stage, occurredAt } = fact;
  if (reached.some((known) => known.stage === stage)) {
    const reason = `${stage} is already recorded with different details`;
    return { state: "contradiction", reason };
  }
  const needed = prerequisitesOf(stage, timeline);
  if (needed.some((earlier) => !reached.some((known) => known.stage === earlier))) {
    return { state: "waiting", reason: null };
  }
  const wrong = reached.find((known) => {
    const [earlier, later] = rankOf(known) < rankOf(fact) ? [known, fact] : [fact, known];
    return earlier.occurredAt.getTime() - later.occurredAt.getTime() > TOLERANCE_MS;
  });
  return wrong
    ? {
        state: "contradiction",
        reason: `${stage} is dated ${occurredAt.toISOString()}, but ${wrong.stage} ${wrong.occurredAt.toISOString()}`,
      }
    : { state: "accepted", reason: null };
};

type DecidedFact = ReachedStage & {
  readonly id: number;
  readonly state: FactDecision["state"] | "withdrawn";
};

/**
 * Decides all facts of an order that are not withdrawn, however they came. Those in effect stay so while they can. Then the
 * waiting ones take effect, and last the contradictions, the latest first: what they contradicted may be withdrawn.
 */
export const decideFacts = (timeline: TimelineShape, facts: readonly DecidedFact[]) => {
  const inState = (wanted: DecidedFact["state"]): readonly DecidedFact[] =>
    facts.filter(({ state }) => state === wanted);
  const candidates = [
    ...inState("accepted"),
    ...inState("waiting").toSorted((one, other) => rankOf(one) - rankOf(other)),
    ...inState("contradiction").toReversed(),
  ];
  const accepted = new Map<number, ReachedStage>();
  const decide = (fact: DecidedFact): FactDecision =>
    accepted.has(fact.id)
      ? { state: "accepted", reason: null }
      : decideFact(timeline, [...accepted.values()], fact);
  for (;;) {
    const next = candidates.find(
      (fact) => !accepted.has(fact.id) && decide(fact).state === "accepted",
    );
    if (!next) {
      return new Map(candidates.map((fact) => [fact.id, decide(fact)]));
    }
    accepted.set(next.id, next);
  }
};

export const latestStage = (stages: readonly PlantingStage[]): OrderStage =>
  PLANTING_STAGES.findLast((stage) => stages.includes(stage)) ?? "created";

/** The partner of planting orders that were imported. No adapter serves it: such orders are never polled. */
export const IMPORTED_PARTNER = "imported";

/**
 * Returns why a fact cannot be withdrawn, or null.
 * @param facts the facts of the order, as they would be afterwards
 * @param withdrawn its state is the one before
 */
export const findWithdrawalProblem = (
  { partner }: { readonly partner: string },
  facts: readonly DecidedFact[],
  withdrawn: {
    readonly fact: number;
    readonly stage: PlantingStage;
    readonly before: DecidedFact["state"];
  },
): string | null => {
  const isPolled = partner !== ("manual" satisfies PartnerKind) && partner !== IMPORTED_PARTNER;
  if (isPolled && withdrawn.stage === "funds_distributed") {
    return `fact ${withdrawn.fact} says how the service has placed the order, and its next poll would only repeat it`;
  }
  const findAccepted = (wanted: PlantingStage): DecidedFact | undefined =>
    facts.find(({ stage, state }) => state === "accepted" && stage === wanted);
  const verified = findAccepted("planted_and_verified");
  // A verification alone counts as planted on its day, which the partner has not reported.
  const isUnplanted = withdrawn.stage === "planted" && withdrawn.before === "accepted";
  return isUnplanted && verified && !findAccepted("planted")
    ? `fact ${verified.id} verifies what fact ${withdrawn.fact} reports as planted; withdraw fact ${verified.id} first, or record another planted fact before`
    : null;
};

export const ORDER_NOT_FOUND = "failed to find planting order";

/** Returns the reference of a record in another system. Systems number their records alike, so its name is a part of it. */
export const importedReference = (source: string, id: number): string => `${source}/${id}`;
