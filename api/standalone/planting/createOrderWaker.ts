import type { Client } from "@temporalio/client";
import { factsSignal, plantingOrderWorkflowId } from "../../../workflows/plantingOrder.ts";

const DEADLINE_MS = 1000;

/**
 * Tells an order's workflow that facts have come. Whether it hears of it makes no difference but for the time: the facts are
 * on record, and the workflow looks by itself.
 */
export const createOrderWaker =
  (temporal: Client) =>
  async (orderId: number): Promise<void> => {
    await temporal
      // The client tries a call again after its deadline; the signal ends that.
      .withAbortSignal(AbortSignal.timeout(DEADLINE_MS), () =>
        temporal.withDeadline(Date.now() + DEADLINE_MS, () =>
          temporal.workflow.getHandle(plantingOrderWorkflowId(orderId)).signal(factsSignal),
        ),
      )
      .catch(() => undefined);
  };
