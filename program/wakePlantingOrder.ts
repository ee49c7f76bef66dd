import type { Client } from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import { factsSignal, plantingOrderWorkflowId } from "../workflows/plantingOrder.ts";
import { withTemporalDeadline } from "./withTemporalDeadline.ts";

/**
 * Tells an order's workflow that facts have come. Whether it hears of it makes no difference but for the time: the facts
 * are on record, and the workflow looks by itself.
 * @returns whether nobody has to be told any more; false when Temporal does not answer in time
 */
export const wakePlantingOrder = async (
  temporal: Client,
  orderId: number,
  timeoutMs: number,
): Promise<boolean> => {
  try {
    await withTemporalDeadline(temporal, timeoutMs, () =>
      temporal.workflow.getHandle(plantingOrderWorkflowId(orderId)).signal(factsSignal),
    );
    return true;
  } catch (error) {
    // It has seen the order to its end already, or the next gathering starts it again.
    return error instanceof WorkflowNotFoundError;
  }
};
