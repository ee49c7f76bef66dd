import type { Client } from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import { FACTS_RECORDED, plantingOrderWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { withTemporalDeadline } from "../../runtime/temporalClient.ts";

/**
 * Signals an order's workflow that facts were recorded. A lost signal only delays it: the facts are stored, and the
 * workflow finds them at its next poll.
 * @param getDeployment returns the deployment's name in Temporal
 * @returns false if the name is undecided or Temporal did not respond in time; true if the signal was sent or no workflow
 *   is running
 */
export const wakePlantingOrder = async (
  temporal: Client,
  getDeployment: () => Promise<string>,
  orderId: number,
  timeoutMs: number,
): Promise<boolean> => {
  try {
    const deployment = await getDeployment();
    await withTemporalDeadline(temporal, timeoutMs, () =>
      temporal.workflow
        .getHandle(plantingOrderWorkflowId(deployment, orderId))
        .signal(FACTS_RECORDED),
    );
    return true;
  } catch (error) {
    // It has completed, or the next run of plantingOrderCreation starts it again.
    return error instanceof WorkflowNotFoundError;
  }
};
