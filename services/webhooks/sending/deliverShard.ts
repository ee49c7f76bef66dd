import type { CommonQueryMethods } from "slonik";
import { listDueEndpoints } from "../../../db/webhooks/deliveries.ts";
import type { Clock } from "../../../domain/clock.ts";
import { createShardScans } from "../../createShardScans.ts";
import { runShard } from "../../runShard.ts";
import type { ShardSignals } from "../../runShard.ts";
import { createDeliverySender } from "./createDeliverySender.ts";
import type {
  DeliverySender,
  DeliverySenderOptions,
  ScanEndpoints,
} from "./createDeliverySender.ts";
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

export type DeliveryShards = {
  /** Makes the deliveries of a shard's endpoints for a minute. It looks for due ones every second. */
  readonly deliverShard: (shard: number, signals: ShardSignals) => Promise<void>;
  /** Interrupts the requests in progress and waits until that is recorded. */
  readonly end: () => Promise<void>;
};

/**
 * Creates the senders of a worker's shards of webhooks. A sender outlasts its minute: the next one continues with its
 * requests in progress, so a server that does not respond holds up nothing at the end of a minute.
 * @param runMs how long a run of a shard lasts instead of a minute
 */
export const createDeliveryShards = (
  deps: DeliveryDependencies,
  { onFailure, runMs }: Pick<DeliverySenderOptions, "onFailure"> & { readonly runMs?: number },
): DeliveryShards => {
  const scanEndpoints = createEndpointScans(deps);
  const senders = new Map<number, DeliverySender>();

  const senderOf = (shard: number): DeliverySender => {
    const sender =
      senders.get(shard) ?? createDeliverySender(deps, shard, { scanEndpoints, onFailure });
    senders.set(shard, sender);
    return sender;
  };

  return {
    deliverShard: async (shard, signals) => {
      const { stop, signal } = signals;
      const sender = senderOf(shard);
      signal.addEventListener("abort", sender.abort);
      try {
        await runShard(deps, { kind: "webhooks", shard, offsetMs: 0, runMs }, sender, signals);
      } finally {
        if (stop.aborted || signal.aborted) {
          await sender.settled();
        }
        signal.removeEventListener("abort", sender.abort);
      }
    },
    end: async () => {
      for (const sender of senders.values()) {
        sender.abort();
        await sender.settled();
      }
    },
  };
};
