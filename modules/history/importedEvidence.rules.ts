import { findFutureProblem } from "../planting/fact.rules.ts";
import type { PlantingFact } from "../planting/fact.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { decideFact, PLANTING_STAGES } from "../planting/order.rules.ts";

/** The evidence of one tree registration that another system has shown. */
export type ImportedEvidence = {
  /** The id of the registration in the other system. */
  readonly treeId: string;
  /** The name of the other system, which the evidence shows. */
  readonly source: string;
  readonly partnerName: string;
  readonly shape: TimelineShape;
  /** Null if the trees were not ordered yet. */
  readonly order: ImportedTreeOrder | null;
  /** In the order of their stages. */
  readonly facts: readonly PlantingFact[];
};

/** The order of the trees, with the ids that the other system has shown. */
export type ImportedTreeOrder = {
  readonly orderId: number;
  readonly publicId: string;
  /** Null if the other system has shown none. */
  readonly treeOrderId: number | null;
  readonly treeOrderPublicId: string | null;
  readonly treeAmount: number | null;
  readonly buyerName: string;
};

/** Sorts facts by their stages. */
export const sortByStage = (facts: readonly PlantingFact[]): readonly PlantingFact[] =>
  facts.toSorted(
    (left, right) => PLANTING_STAGES.indexOf(left.stage) - PLANTING_STAGES.indexOf(right.stage),
  );

/** Returns why the facts of a timeline cannot all be accepted, or null. */
export const findFactsProblem = (
  shape: TimelineShape,
  facts: readonly PlantingFact[],
  now: Date,
): string | null => {
  const reached: { stage: PlantingFact["stage"]; occurredAt: Date }[] = [];
  for (const given of sortByStage(facts)) {
    const { stage, occurred_at: occurredAt } = given;
    const futureProblem = findFutureProblem(given, now);
    if (futureProblem !== null) {
      return futureProblem;
    }
    const fact = { stage, occurredAt: new Date(occurredAt) };
    const decision = decideFact(shape, reached, fact);
    if (decision.state === "waiting") {
      return `${stage}: is completed, but an earlier milestone is not`;
    }
    if (decision.state === "contradiction") {
      return decision.reason;
    }
    reached.push(fact);
  }
  return null;
};
