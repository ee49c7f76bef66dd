import { setTimeout as sleep } from "node:timers/promises";
import { claimDeliveries } from "./attempts.sql.ts";
import type { ClaimedDelivery } from "./attempts.sql.ts";
import { listDueEndpoints } from "./pendingEndpoints.sql.ts";
import { createShardRuns } from "../../db/createShardRuns.ts";
import type { ShardOptions, ShardRuns, ShardSender } from "../../db/createShardRuns.ts";
import { createScanPace } from "../../db/createScanPace.ts";
import { createShardScans } from "../../db/createShardScans.ts";
import type { DueEndpoint } from "./pendingEndpoints.sql.ts";
import type { ScanShard } from "../../db/createShardScans.ts";
import { awaitAtMost } from "../../runtime/waiting.ts";
import type { DeliveryContext } from "./context.ts";
import { createAttemptRecords, makeAttempt } from "./makeAttempt.ts";
import { createEndpointQueue } from "./createEndpointQueue.ts";
import type { Context } from "../../runtime/context.ts";

/**
 * How long endpoints that have a free place again are gathered, so that one statement claims for them all: the longer, the
 * more requests are in progress. An endpoint that is alone hardly waits.
 */
const GATHER_MS_PER_REQUEST = 1;
const MAXIMUM_GATHER_MS = 50;

/** If recording is slower than the receivers, no more is sent. What is not recorded by the end of its lease is sent again. */
const MAXIMUM_UNRECORDED = 1000;

/** Scans for endpoints with due deliveries. */
export type ScanEndpoints = ScanShard<DueEndpoint>;

export type DeliverySenderOptions = {
  readonly scanEndpoints: ScanEndpoints;
  /** Called when an attempt could not be made or recorded. */
  readonly onFailure: (delivery: ClaimedDelivery, error: unknown) => void;
  /** Interrupts the requests in progress. Their attempts are made again. */
  readonly signal: AbortSignal;
};

/**
 * Creates what makes the deliveries of a shard's endpoints. A step claims due deliveries of many endpoints in one statement
 * and begins to send them; an attempt is recorded with those that end at the same time. Everything that another process
 * needs to continue is in the database. What is kept in memory makes it faster and fairer.
 */
export const createDeliverySender = (
  context: DeliveryContext,
  shard: number,
  { scanEndpoints, onFailure, signal }: DeliverySenderOptions,
): ShardSender => {
  const { db, clock } = context;
  const queue = createEndpointQueue();
  const record = createAttemptRecords(db);
  const attempts = new Set<Promise<void>>();
  let wake = Promise.withResolvers<void>();

  const begin = (delivery: ClaimedDelivery): void => {
    const end = queue.begin(delivery.endpointId);
    const onEnd: typeof end = (result) => {
      end(result);
      if (!queue.isEmpty()) {
        wake.resolve();
      }
    };
    const attempt = makeAttempt(context, delivery, { record, onEnd, signal })
      .catch((error: unknown) => onFailure(delivery, error))
      .finally(() => attempts.delete(attempt));
    attempts.add(attempt);
  };

  const claim = async (): Promise<void> => {
    const endpoints = attempts.size < MAXIMUM_UNRECORDED ? queue.take() : [];
    if (endpoints.length === 0) {
      return;
    }
    const deliveries = await claimDeliveries(db, endpoints, clock.now());
    const claimed = Map.groupBy(deliveries, ({ endpointId }) => endpointId);
    for (const { endpointId, places } of endpoints) {
      // It may have more. Of the others, the next scan finds what becomes due.
      if (claimed.get(endpointId)?.length === places) {
        queue.add({ id: endpointId, isFailing: false });
      }
    }
    for (const delivery of deliveries) {
      begin(delivery);
    }
  };

  signal.addEventListener("abort", () => wake.resolve(), { once: true });

  return {
    scan: async () => {
      for (const endpoint of (await scanEndpoints(shard)) ?? []) {
        queue.add(endpoint);
      }
      wake.resolve();
    },
    step: async () => {
      wake = Promise.withResolvers<void>();
      await claim();
    },
    waitForWork: async (atMostMs) => {
      await awaitAtMost(wake.promise, atMostMs);
      await sleep(Math.min(queue.running() * GATHER_MS_PER_REQUEST, MAXIMUM_GATHER_MS, atMostMs));
    },
    settled: async () => {
      while (attempts.size > 0) {
        await Promise.all(attempts);
      }
    },
  };
};

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
