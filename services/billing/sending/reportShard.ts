import { runShard, spreadOverSecond } from "../../runShard.ts";
import type { ShardSignals } from "../../runShard.ts";
import { createShardSender } from "./createShardSender.ts";
import type { ScanStreams } from "./createStreamScans.ts";
import type { ShardObservers } from "./createShardSender.ts";
import type { SendingDependencies } from "./sendMeterEvent.ts";

/**
 * Reports the usage of a shard's streams for a minute. It scans for usage every second, because the facts of another second
 * may be sealed.
 */
export const reportShard = async (
  deps: SendingDependencies,
  shard: number,
  {
    stop,
    signal,
    ...options
  }: ShardObservers & ShardSignals & { readonly scanStreams: ScanStreams },
): Promise<void> => {
  const sender = createShardSender(deps, shard, { ...options, signal });
  // At the same time, the shards would compete for the calls to Stripe of the near future, and those that get none would
  // have to begin their attempts later, each with another change of its row.
  const offsetMs = spreadOverSecond(shard);
  try {
    await runShard(deps, { kind: "usage", shard, offsetMs }, sender, { stop, signal });
  } finally {
    await sender.settled();
  }
};
