import { Context } from "@temporalio/activity";
import { createStreamScans } from "../services/billing/sending/createStreamScans.ts";
import { reportShard } from "../services/billing/sending/reportShard.ts";
import type { ShardObservers } from "../services/billing/sending/createShardSender.ts";
import type { SendingDependencies } from "../services/billing/sending/sendMeterEvent.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

export type ShardActivityDependencies = SendingDependencies &
  ShardObservers & {
    /** Aborted when the worker begins to stop. Temporal cancels activities only after the worker's grace time. */
    readonly stopping: AbortSignal;
  };

/** The activity that reports the usage of many streams. It is idempotent: its progress is stored in the database. */
export const createShardActivities = (deps: ShardActivityDependencies) => {
  const scanStreams = createStreamScans(deps.db);
  return {
    reportShard: (shard: number): Promise<void> =>
      withHeartbeat(() =>
        reportShard(deps, shard, {
          stop: deps.stopping,
          signal: Context.current().cancellationSignal,
          scanStreams,
          onResult: deps.onResult,
          onFailure: deps.onFailure,
        }),
      ),
  };
};

export type ShardActivities = ReturnType<typeof createShardActivities>;
