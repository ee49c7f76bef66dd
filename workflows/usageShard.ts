import { continueAsNew, proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { ShardActivities } from "../activities/createShardActivities.ts";
import { SHARD_ACTIVITY } from "./shardActivity.ts";

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
