import type { Client } from "@temporalio/client";
import type { ShardKind } from "../../db/shards/shards.rules.ts";
import {
  backgroundQueue,
  webhookQueue,
  usageShardWorkflowId,
} from "../../runtime/temporalNames.rules.ts";
import { usageShard } from "../../workflows/usageShard.ts";
import { webhookShard, webhookShardWorkflowId } from "../../workflows/webhookShard.ts";

/** The senders of shards: their workflow, its id, and its task queue. */
const SENDERS = {
  usage: { workflow: usageShard, idOf: usageShardWorkflowId, queueOf: backgroundQueue },
  webhooks: { workflow: webhookShard, idOf: webhookShardWorkflowId, queueOf: webhookQueue },
} as const satisfies Record<ShardKind, unknown>;

/** Returns the workflow id of a shard's sender. */
export const shardSenderId = (deployment: string, kind: ShardKind, shard: number): string =>
  SENDERS[kind].idOf(deployment, shard);

/** Starts the sender of a shard, unless it is running. */
export const startShardSender = async (
  temporal: Client,
  deployment: string,
  kind: ShardKind,
  shard: number,
): Promise<void> => {
  const { workflow, idOf, queueOf } = SENDERS[kind];
  await temporal.workflow.start(workflow, {
    workflowId: idOf(deployment, shard),
    workflowIdConflictPolicy: "USE_EXISTING",
    taskQueue: queueOf(deployment),
    args: [shard],
  });
};
