import { Context } from "@temporalio/activity";
import type { DeliveryShards } from "../services/webhooks/sending/deliverShard.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

/** The activity of webhooks. It may be repeated: its progress is stored in the database. */
export const createWebhookActivities = ({
  shards,
  stopping,
}: {
  readonly shards: DeliveryShards;
  /** Aborted when the worker begins to stop. Temporal cancels activities only after the worker's grace time. */
  readonly stopping: AbortSignal;
}) => ({
  /** Makes the deliveries of a shard's endpoints for a minute. */
  deliverShard: (shard: number): Promise<void> =>
    withHeartbeat(() =>
      shards.deliverShard(shard, { stop: stopping, signal: Context.current().cancellationSignal }),
    ),
});

export type WebhookActivities = ReturnType<typeof createWebhookActivities>;
