import { createShardRuns, spreadOverSecond } from "../../../db/createShardRuns.ts";
import type { ShardOptions, ShardRuns } from "../../../db/createShardRuns.ts";
import type { BillingContext } from "../context.ts";
import { createShardSender } from "./createShardSender.ts";
import type { ShardObservers } from "./createShardSender.ts";
import { createStreamScans } from "./createStreamQueue.ts";

/**
 * Creates the runs that report the usage of a worker's shards. They scan for usage every second, because the facts of another
 * second may be sealed.
 */
export const createReportingRuns = (
  context: BillingContext,
  { runMs, ...observers }: ShardObservers & Pick<ShardOptions, "runMs">,
): ShardRuns => {
  const scans = createStreamScans(context);
  return createShardRuns(context, {
    kind: "usage",
    // At the same time, the shards would compete for the calls to Stripe of the near future, and those that get none would
    // have to begin their attempts later, each with another change of its row.
    offsetMsOf: spreadOverSecond,
    createSender: (shard, signal) =>
      createShardSender(context, shard, { ...observers, scans, signal }),
    runMs,
  });
};
