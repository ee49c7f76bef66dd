import { proxyActivities } from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";

const { processProcessorEvents } = proxyActivities<BillingActivities>({
  // The activity limits itself to a minute plus one event.
  startToCloseTimeout: "2 minutes",
  heartbeatTimeout: "10 seconds",
  // The events wait in the database, and the dispatcher starts another workflow.
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumAttempts: 5 },
});

/** Processes the due events of the processor. The dispatcher starts it again while there are more. */
export const processorEvents = (): Promise<void> => processProcessorEvents();
