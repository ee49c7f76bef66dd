import { Context } from "@temporalio/activity";
import type { DeliverySenderOptions } from "../services/webhooks/sending/createDeliverySender.ts";
import { createEndpointSpeeds } from "../services/webhooks/sending/createEndpointQueue.ts";
import { createEndpointScans, deliverShard } from "../services/webhooks/sending/deliverShard.ts";
import type { DeliveryDependencies } from "../services/webhooks/sending/makeAttempt.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

export type WebhookActivityDependencies = DeliveryDependencies &
  Pick<DeliverySenderOptions, "onFailure"> & {
    /** Aborted when the worker begins to stop. Temporal cancels activities only after the worker's grace time. */
    readonly stopping: AbortSignal;
  };

/** The activity of webhooks. It may be repeated: its progress is stored in the database. */
export const createWebhookActivities = ({
  stopping,
  onFailure,
  ...deps
}: WebhookActivityDependencies) => {
  const scanEndpoints = createEndpointScans(deps);
  const speeds = createEndpointSpeeds();
  return {
    /** Makes the deliveries of a shard's endpoints for a minute. */
    deliverShard: (shard: number): Promise<void> =>
      withHeartbeat(() =>
        deliverShard(deps, shard, {
          stop: stopping,
          signal: Context.current().cancellationSignal,
          scanEndpoints,
          speeds,
          onFailure,
        }),
      ),
  };
};

export type WebhookActivities = ReturnType<typeof createWebhookActivities>;
