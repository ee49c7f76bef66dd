import { continueAsNew, proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { WebhookActivities } from "../activities/createShardActivities.ts";
import { inDeployment } from "../runtime/temporalNames.rules.ts";
import { SHARD_ACTIVITY } from "./shardActivity.ts";

export const webhookShardWorkflowId = (deployment: string, shard: number): string =>
  inDeployment(deployment, `webhook-shard/${shard}`);

const { deliverShard } = proxyActivities<WebhookActivities>(SHARD_ACTIVITY);

/** Makes the deliveries to a shard's endpoints, minute after minute, as `usageShard` reports usage. It never completes. */
export const webhookShard = async (shard: number): Promise<void> => {
  while (!workflowInfo().continueAsNewSuggested) {
    await deliverShard(shard);
  }
  await continueAsNew<typeof webhookShard>(shard);
};
