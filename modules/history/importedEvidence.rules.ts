import { findFutureProblem } from "../planting/fact.rules.ts";
import type { PlantingFact } from "../planting/fact.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
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

/** @throws DomainError request_invalid if the facts of a timeline cannot all be accepted */
export const requireAcceptable = (
  shape: TimelineShape,
  facts: readonly PlantingFact[],
  now: Date,
): void => {
  const given = facts.map(({ stage, occurred_at: time }, id) => ({
    id,
    stage,
    occurredAt: new Date(time),
    state: "waiting" as const,
  }));
  const decided = decideFacts(shape, given);
  for (const [id, fact] of facts.entries()) {
    const { state, reason = null } = decided.get(id) ?? {};
    const problem =
      state === "waiting"
        ? `${fact.stage}: is completed, but an earlier milestone is not`
        : (findFutureProblem(fact, now) ?? reason);
    if (problem !== null) {
      throw invalidRequest(problem);
    }
  }
};
