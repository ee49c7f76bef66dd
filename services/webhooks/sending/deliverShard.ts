import type { CommonQueryMethods } from "slonik";
import { listDueEndpoints } from "../../../db/webhooks/deliveries.ts";
import type { Clock } from "../../../domain/clock.ts";
import { createShardScans } from "../../createShardScans.ts";
import { runShard } from "../../runShard.ts";
import type { ShardSignals } from "../../runShard.ts";
import { createDeliverySender } from "./createDeliverySender.ts";
import type { DeliverySenderOptions, ScanEndpoints } from "./createDeliverySender.ts";
import type { DeliveryDependencies } from "./makeAttempt.ts";

/** Creates the scans of a worker's shards for endpoints that have due deliveries. */
export const createEndpointScans = ({
  db,
  clock,
}: {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
}): ScanEndpoints =>
  createShardScans({
    list: ({ after, limit }) =>
      listDueEndpoints(db, { after: after?.id ?? null, now: clock.now(), limit }),
    keyOf: ({ id }) => id,
    idOf: ({ id }) => id,
  });

/** Makes the deliveries of a shard's endpoints for a minute. It looks for due ones every second. */
export const deliverShard = (
  deps: DeliveryDependencies,
  shard: number,
  { stop, signal, ...options }: DeliverySenderOptions & ShardSignals,
): Promise<void> => {
  const sender = createDeliverySender(deps, shard, { ...options, signal });
  return runShard(deps, { kind: "webhooks", shard, offsetMs: 0 }, sender, { stop, signal });
};
