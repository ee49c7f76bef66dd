import { continueAsNew, proxyActivities, workflowInfo } from "@temporalio/workflow";
import type {
  DispatcherActivities,
  ShardActivities,
  WebhookActivities,
} from "../activities/createShardActivities.ts";
import type { ActivityOptions } from "@temporalio/workflow";

/** The options of an activity that does the work of a shard for a minute. */
const SHARD_ACTIVITY: ActivityOptions = {
  // The activity limits itself to a minute plus one call.
  startToCloseTimeout: "2 minutes",
  heartbeatTimeout: "10 seconds",
  // Follows an unavailable database or a lost worker.
  retry: { initialInterval: "3 seconds", backoffCoefficient: 1 },
};

const { reportShard } = proxyActivities<ShardActivities>(SHARD_ACTIVITY);

/**
 * Reports the usage of a shard's streams, minute after minute. It never completes: Temporal gives each minute to a
 * worker, and to another one if that worker is lost.
 */
export const usageShard = async (shard: number): Promise<void> => {
  while (!workflowInfo().continueAsNewSuggested) {
    await reportShard(shard);
  }
  await continueAsNew<typeof usageShard>(shard);
};

const { deliverShard } = proxyActivities<WebhookActivities>(SHARD_ACTIVITY);

/** Makes the deliveries to a shard's endpoints, minute after minute, as `usageShard` reports usage. It never completes. */
export const webhookShard = async (shard: number): Promise<void> => {
  while (!workflowInfo().continueAsNewSuggested) {
    await deliverShard(shard);
  }
  await continueAsNew<typeof webhookShard>(shard);
};

const { dispatch } = proxyActivities<DispatcherActivities>(SHARD_ACTIVITY);

/**
 * Starts what waits in the database, minute after minute, as `usageShard` reports usage. There is one, whose number is 0. It
 * never completes.
 */
export const dispatcher = async (shard: number): Promise<void> => {
  while (!workflowInfo().continueAsNewSuggested) {
    await dispatch(shard);
  }
  await continueAsNew<typeof dispatcher>(shard);
};
