import { Context } from "@temporalio/activity";
import { deliverWebhooks } from "../services/webhooks/deliverWebhooks.ts";
import type { DeliveryDependencies } from "../services/webhooks/deliverWebhooks.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

/** The activity of webhooks. It may be repeated: its progress is stored in the database. */
export const createWebhookActivities = (deps: DeliveryDependencies) => ({
  /** Makes an endpoint's due attempts. Returns in how many milliseconds the next one is due; null if none is. */
  deliverWebhooks: (endpointId: string): Promise<number | null> =>
    withHeartbeat(() => deliverWebhooks(deps, endpointId, Context.current().cancellationSignal)),
});

export type WebhookActivities = ReturnType<typeof createWebhookActivities>;
