import { listDueEndpoints } from "./pendingEndpoints.sql.ts";
import { createShardRuns } from "../../db/createShardRuns.ts";
import type { ShardOptions, ShardRuns } from "../../db/createShardRuns.ts";
import { createScanPace } from "../../db/createScanPace.ts";
import { createShardScans } from "../../db/createShardScans.ts";
import type { Context } from "../../runtime/context.ts";
import type { DeliveryContext } from "./context.ts";
import { createDeliverySender } from "./createDeliverySender.ts";
import type { DeliverySenderOptions, ScanEndpoints } from "./createDeliverySender.ts";

/** Creates the scans of a worker's shards for endpoints that have due deliveries. */
export const createEndpointScans = ({ db, clock }: Context): ScanEndpoints =>
  createShardScans({
    clock,
    pace: createScanPace(),
    list: ({ after, now, limit }) => listDueEndpoints(db, { after: after?.id ?? null, now, limit }),
    idOf: ({ id }) => id,
  });

/** Creates the runs that make the deliveries of a worker's shards. */
export const createDeliveryRuns = (
  context: DeliveryContext,
  { onFailure, runMs }: Pick<DeliverySenderOptions, "onFailure"> & Pick<ShardOptions, "runMs">,
): ShardRuns => {
  const scanEndpoints = createEndpointScans(context);
  return createShardRuns(context, {
    kind: "webhooks",
    createSender: (shard, signal) =>
      createDeliverySender(context, shard, { scanEndpoints, onFailure, signal }),
    runMs,
  });
};
