import type { DatabaseTransactionConnection } from "slonik";
import { hasAdvanced } from "../../../domain/planting/order.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";
import { recordEvent } from "../../events/recordEvent.ts";

/**
 * Records the event of the stage that an order has reached, if it has. An order that falls back, because a fact was
 * withdrawn, can reach a stage again.
 */
export const recordMilestone = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
  { shownId, shownPublicId, accountId, mode, stage, treeCount, refundedCount }: PlantingOrder,
  now: Date,
): Promise<void> => {
  if (stage !== "created" && hasAdvanced(before.stage, stage)) {
    await recordEvent(
      transaction,
      { accountId, mode },
      {
        type: "evidence.milestone_reached",
        data: {
          order_id: shownId,
          public_id: shownPublicId,
          milestone: stage,
          tree_count: treeCount - refundedCount,
        },
      },
      now,
    );
  }
};
