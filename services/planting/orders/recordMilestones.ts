import type { DatabaseTransactionConnection } from "slonik";
import { listFacts } from "../../../db/planting/facts.ts";
import { hasAdvanced, PLANTING_STAGES } from "../../../domain/planting/order.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";
import { recordEvents } from "../../events/recordEvent.ts";

/**
 * Records an event for each stage that an order has reached, if it has. An order that falls back, because a fact was
 * withdrawn, can reach a stage again.
 */
export const recordMilestones = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
  after: PlantingOrder,
  now: Date,
): Promise<void> => {
  if (!hasAdvanced(before.stage, after.stage)) {
    return;
  }
  const accepted = await listFacts(transaction, after.id, ["accepted"]);
  const reached = PLANTING_STAGES.filter(
    (stage) => hasAdvanced(before.stage, stage) && accepted.some((fact) => fact.stage === stage),
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
