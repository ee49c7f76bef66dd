import { ActivityFailure, RetryState } from "@temporalio/common";
import type { Duration } from "@temporalio/common";
import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { WebhookActivities } from "../activities/createWebhookActivities.ts";
import { inDeployment } from "./inDeployment.ts";

/** Signals that deliveries are due. It has no payload: they are read from the database. */
export const deliveriesDueSignal = defineSignal("deliveriesDue");

export const webhookEndpointWorkflowId = (deployment: string, endpointId: string): string =>
  inDeployment(deployment, `webhook/${endpointId}`);

const IDLE_MS = 2 * 60 * 1000;

const isTimeout = (error: unknown): boolean =>
  error instanceof ActivityFailure && error.retryState === RetryState.TIMEOUT;

/**
 * Makes an endpoint's deliveries, waits for retries that are due soon, and completes when nothing is due for two minutes.
 * The dispatcher starts it again.
 * @param maxActivityTime how long one run retries a failing activity before it continues as new. Every signal is in the
 *   history of the run, and Temporal accepts ten thousand of them per run
 */
export const webhookEndpoint = async (
  endpointId: string,
  maxActivityTime: Duration = "6 hours",
): Promise<void> => {
  const { deliverWebhooks } = proxyActivities<WebhookActivities>({
    // The activity begins no attempt after 20 seconds, and an attempt takes 15.
    startToCloseTimeout: "2 minutes",
    scheduleToCloseTimeout: maxActivityTime,
    heartbeatTimeout: "10 seconds",
    // It fails only if the database does. Attempts that fail are recorded.
    retry: { initialInterval: "3 seconds", backoffCoefficient: 2, maximumInterval: "1 minute" },
  });
  const restart = () => continueAsNew<typeof webhookEndpoint>(endpointId, maxActivityTime);
  let isWoken = true;
  setHandler(deliveriesDueSignal, () => {
    isWoken = true;
  });
  while (isWoken) {
    isWoken = false;
    const nextDueMs = await deliverWebhooks(endpointId).catch((error: unknown) =>
      isTimeout(error) ? restart() : Promise.reject(error),
    );
    if (workflowInfo().continueAsNewSuggested) {
      await restart();
    }
    const isSoon = nextDueMs !== null && nextDueMs <= IDLE_MS;
    // A timer of 0 ms would still add events to the history.
    if (!isSoon || nextDueMs > 0) {
      await condition(() => isWoken, isSoon ? nextDueMs : IDLE_MS);
    }
    isWoken ||= isSoon;
  }
};
