import type { DatabaseTransactionConnection } from "slonik";
import { listFacts } from "./facts.sql.ts";
import type { StoredFact } from "./facts.sql.ts";
import { PLANTING_STAGES } from "./order.rules.ts";
import type { PlantingOrder, PlantingStage } from "./order.rules.ts";
import { recordEvents } from "../events/recordEvent.ts";

const hasReached = (facts: readonly StoredFact[], stage: PlantingStage): boolean =>
  facts.some((fact) => fact.state === "accepted" && fact.stage === stage);

/**
 * Records an event for each stage that an order has reached since. Planting may be reported after its verification. An order
 * that falls back, because a fact was withdrawn, can reach a stage again.
 * @param before the order's facts before, at least the accepted ones
 */
export const recordMilestones = async (
  transaction: DatabaseTransactionConnection,
  before: readonly StoredFact[],
  after: PlantingOrder,
  now: Date,
): Promise<void> => {
  const accepted = await listFacts(transaction, after.id, ["accepted"]);
  const reached = PLANTING_STAGES.filter(
    (stage) => hasReached(accepted, stage) && !hasReached(before, stage),
  );
  const { shownId, shownPublicId, accountId, mode, treeCount, refundedCount } = after;
  await recordEvents(
    transaction,
    { accountId, mode },
    now,
    reached.map((milestone) => ({
      type: "evidence.milestone_reached",
      data: {
        order_id: shownId,
        public_id: shownPublicId,
        milestone,
        tree_count: treeCount - refundedCount,
      },
    })),
  );
};
