import { setTimeout as sleep } from "node:timers/promises";
import { isContentError } from "../../../db/isContentError.ts";
import { claimDeliveries } from "../../../db/webhooks/deliveries.ts";
import type { ClaimedDelivery, DueEndpoint } from "../../../db/webhooks/deliveries.ts";
import type { ScanShard } from "../../createShardScans.ts";
import type { ShardSender } from "../../runShard.ts";
import { createAttemptRecords } from "./createAttemptRecords.ts";
import { createEndpointQueue } from "./createEndpointQueue.ts";
import type { EndpointSpeeds } from "./createEndpointQueue.ts";
import { makeAttempt } from "./makeAttempt.ts";
import type { DeliveryDependencies } from "./makeAttempt.ts";

/** A part of a scan is handled before the next one is read. */
const PART_SIZE = 500;

/**
 * How long endpoints that have a free place again are gathered, so that one statement claims for them all: the longer, the
 * more requests are running. An endpoint that is alone hardly waits.
 */
const GATHER_MS_PER_REQUEST = 1;
const MAXIMUM_GATHER_MS = 50;

/** Scans for endpoints with due deliveries. */
export type ScanEndpoints = ScanShard<DueEndpoint>;

export type DeliverySenderOptions = {
  readonly scanEndpoints: ScanEndpoints;
  readonly speeds: EndpointSpeeds;
  /** Called when an attempt could not be made or recorded, for a reason of its own. It is made again after its lease. */
  readonly onFailure: (delivery: ClaimedDelivery, error: unknown) => void;
};

/**
 * Creates what makes the deliveries of a shard's endpoints. A step claims due deliveries of many endpoints in one statement
 * and begins to send them; an attempt is recorded with those that end at the same time. Everything that another process
 * needs to continue is in the database.
 */
export const createDeliverySender = (
  deps: DeliveryDependencies,
  shard: number,
  {
    scanEndpoints,
    speeds,
    onFailure,
    signal,
  }: DeliverySenderOptions & { readonly signal: AbortSignal },
): ShardSender => {
  const { db, clock } = deps;
  const queue = createEndpointQueue(speeds);
  const record = createAttemptRecords(db);
  const attempts = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let scan: { readonly after: DueEndpoint | null; readonly second: number } | null = null;
  let wake = Promise.withResolvers<void>();

  const isScanning = (): boolean => scan !== null && !queue.isFull();

  const begin = (delivery: ClaimedDelivery): void => {
    const end = queue.begin(delivery.endpointId);
    const onResponse = (): void => {
      end();
      if (!queue.isEmpty()) {
        wake.resolve();
      }
    };
    const attempt = makeAttempt(deps, delivery, { record, onResponse, signal })
      .catch((error: unknown) => {
        if (isContentError(error)) {
          onFailure(delivery, error);
        } else {
          failures.push(error);
          wake.resolve();
        }
      })
      .finally(() => attempts.delete(attempt));
    attempts.add(attempt);
  };

  const readPart = async ({ after, second }: NonNullable<typeof scan>): Promise<void> => {
    const { items, next } = await scanEndpoints({ shard, after, second, limit: PART_SIZE });
    for (const endpoint of items) {
      queue.add(endpoint);
    }
    scan = next === null ? null : { after: next, second };
  };

  const claim = async (): Promise<void> => {
    const endpoints = queue.take();
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

  return {
    startScan: () => {
      scan ??= { after: null, second: Math.floor(clock.now().getTime() / 1000) };
    },
    step: async () => {
      wake = Promise.withResolvers<void>();
      if (failures.length > 0) {
        throw failures[0];
      }
      if (scan !== null && isScanning()) {
        await readPart(scan);
      }
      await claim();
    },
    waitForWork: async (atMostMs) => {
      if (isScanning()) {
        return;
      }
      const timer = new AbortController();
      const pause = sleep(atMostMs, undefined, { signal: AbortSignal.any([timer.signal, signal]) });
      await Promise.race([wake.promise, pause.catch(() => undefined)]);
      timer.abort();
      const gatherMs = Math.min(queue.running() * GATHER_MS_PER_REQUEST, MAXIMUM_GATHER_MS);
      await sleep(Math.min(gatherMs, atMostMs), undefined, { signal }).catch(() => undefined);
    },
    settled: async () => {
      while (attempts.size > 0) {
        await Promise.all(attempts);
      }
      if (failures.length > 0) {
        throw failures[0];
      }
    },
  };
};
