import { findFutureProblem } from "../planting/fact.rules.ts";
import type { PlantingFact } from "../planting/fact.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import { decideFacts } from "../planting/order.rules.ts";

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

/** Returns why the facts of a timeline cannot all be accepted, or null. */
export const findFactsProblem = (
  shape: TimelineShape,
  facts: readonly PlantingFact[],
  now: Date,
): string | null => {
  const given = facts.map(({ stage, occurred_at: time }, id) => ({
    id,
    stage,
    occurredAt: new Date(time),
    state: "waiting" as const,
  }));
  const decided = decideFacts(shape, given);
  const problems = facts.map((fact, id) => {
    const { state, reason } = decided.get(id) ?? {};
    return state === "waiting"
      ? `${fact.stage}: is completed, but an earlier milestone is not`
      : (findFutureProblem(fact, now) ?? reason ?? null);
  });
  return problems.find((problem) => problem !== null) ?? null;
};
