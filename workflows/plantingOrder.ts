import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { Activities } from "../activities/createActivities.ts";

/** Tells an order's workflow that facts may have come by another way than by its own looking. */
export const factsSignal = defineSignal("facts");

export const plantingOrderWorkflowId = (orderId: number): string => `planting-order-${orderId}`;

const { placePlantingOrder, followPlantingOrder } = proxyActivities<Activities>({
  startToCloseTimeout: "1 minute",
  // A partner may be away for days; attempts leave no history.
  retry: { initialInterval: "2 seconds", backoffCoefficient: 2, maximumInterval: "10 minutes" },
});

/** Sees an order through all its stages, for as long as that takes: months are usual. */
export const plantingOrder = async (orderId: number): Promise<void> => {
  let woken = false;
  setHandler(factsSignal, () => {
    woken = true;
  });
  await placePlantingOrder(orderId);
  for (;;) {
    woken = false;
    const { isFinished, nextLookMs } = await followPlantingOrder(orderId);
    if (isFinished) {
      return;
    }
    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof plantingOrder>(orderId);
    }
    await condition(() => woken, nextLookMs);
  }
};
