import type { ShardRuns } from "../db/createShardRuns.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

/** Runs of shards, and a signal that is aborted when the worker begins to stop. Temporal cancels activities only after the worker's grace time. */
type ShardWork = { readonly runs: ShardRuns; readonly stopping: AbortSignal };

const runShard = ({ runs, stopping }: ShardWork, shard: number): Promise<void> =>
  withHeartbeat((signal) => runs.run(shard, { stop: stopping, signal }));

/** The activity that reports the usage of many streams. It is idempotent: its progress is stored in the database. */
export const createShardActivities = (context: ShardWork) => ({
  reportShard: (shard: number): Promise<void> => runShard(context, shard),
});

/** The activity that makes the deliveries of many endpoints. It may be repeated: its progress is stored in the database. */
export const createWebhookActivities = (context: ShardWork) => ({
  deliverShard: (shard: number): Promise<void> => runShard(context, shard),
});

/** The activity that starts what waits in the database. It may be repeated, also while another one runs. */
export const createDispatcherActivities = (context: ShardWork) => ({
  dispatch: (shard: number): Promise<void> => runShard(context, shard),
});

export type ShardActivities = ReturnType<typeof createShardActivities>;
export type WebhookActivities = ReturnType<typeof createWebhookActivities>;
export type DispatcherActivities = ReturnType<typeof createDispatcherActivities>;
