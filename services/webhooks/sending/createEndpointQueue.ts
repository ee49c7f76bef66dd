import { LRUCache } from "lru-cache";
import type { DueEndpoint } from "../../../db/webhooks/pendingEndpoints.ts";
import type { EndpointPlaces } from "../../../db/webhooks/attempts.ts";
import { PLACES_OF_ENDPOINT } from "../../../domain/webhooks/decideDelivery.ts";
import type { AttemptResult } from "../../../domain/webhooks/decideDelivery.ts";

/** Until it has responded to this worker once. */
const PLACES_OF_NEW_ENDPOINT = 1;

/**
 * How many requests a shard makes at the same time to the endpoints of a lane. More would keep a busy worker from sending
 * each of them within a second.
 */
const PLACES_OF_LANE = 60;

/** A request that takes as long is not quick. */
const SLOW_MS = 1000;

/** Another worker may have called the endpoint since then. */
const REMEMBERED_MS = 60_000;
const MAXIMUM_REMEMBERED = 100_000;

/**
 * `new`: this worker has not called the endpoint. `quick`: the last request took less than a second. `slow`: it took longer,
 * or one in progress has. `silent`: it took longer and had no response.
 */
const LANES = ["quick", "new", "slow", "silent"] as const;
type Lane = (typeof LANES)[number];

type Memory = { readonly lane: Lane; readonly atMs: number };

/** Ends a request. Without a result, it was interrupted. */
type EndRequest = (result?: AttemptResult) => void;

export type EndpointQueue = {
  /** Adds an endpoint that has due deliveries. One that is failing counts as silent unless it was called a short time ago. */
  readonly add: (endpoint: DueEndpoint) => void;
  /** Removes the endpoints that can receive deliveries now. Each lane is in the order in which they were added. */
  readonly take: () => readonly EndpointPlaces[];
  /** Occupies a place of an endpoint until the function that it returns is called. */
  readonly begin: (endpointId: string) => EndRequest;
  readonly isEmpty: () => boolean;
  /** How many requests are in progress. */
  readonly running: () => number;
};

/**
 * Creates the queue of a shard's endpoints that have due deliveries. Each lane has places of its own, so servers that are
 * slow or do not respond delay no quick one, and those that do not respond delay no slow one.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createEndpointQueue = (
  monotonicMs: () => number = () => performance.now(),
): EndpointQueue => {
  /** A search for free places reads only the beginning of a lane that has some. */
  const waiting: Readonly<Record<Lane, Set<string>>> = {
    quick: new Set(),
    new: new Set(),
    slow: new Set(),
    silent: new Set(),
  };
  /** When the requests in progress began, oldest first, by endpoint. */
  const requests = new Map<string, Set<{ readonly startedAtMs: number }>>();
  const memories = new LRUCache<string, Memory>({ max: MAXIMUM_REMEMBERED });
  let running = 0;

  const runningOf = (endpointId: string): number => requests.get(endpointId)?.size ?? 0;

  const laneOf = (endpointId: string, nowMs: number): Lane => {
    const lane = memories.get(endpointId)?.lane ?? "new";
    const oldest = requests.get(endpointId)?.values().next().value;
    const isSlow = oldest !== undefined && nowMs - oldest.startedAtMs >= SLOW_MS;
    return isSlow && lane !== "silent" ? "slow" : lane;
  };

  const isWaiting = (endpointId: string): boolean =>
    LANES.some((lane) => waiting[lane].has(endpointId));

  /** Puts an endpoint at the end of its lane, unless it waits there. */
  const putInLane = (endpointId: string, nowMs: number): void => {
    const lane = laneOf(endpointId, nowMs);
    if (!waiting[lane].has(endpointId)) {
      for (const other of LANES) {
        waiting[other].delete(endpointId);
      }
      waiting[lane].add(endpointId);
    }
  };

  /** Divides the free places of a lane among the endpoints that wait in it. */
  const divide = (lane: Lane, calledIds: readonly string[], nowMs: number) => {
    const occupied = calledIds.reduce((sum, endpointId) => sum + runningOf(endpointId), 0);
    // The others free their places soon enough to take turns.
    const isShared = lane === "slow" || lane === "silent";
    const onlyCalled = calledIds.filter((endpointId) => !waiting[lane].has(endpointId));
    const parts = isShared ? waiting[lane].size + onlyCalled.length : 1;
    const share = Math.max(1, Math.min(PLACES_OF_ENDPOINT, Math.floor(PLACES_OF_LANE / parts)));
    const given: EndpointPlaces[] = [];
    let free = PLACES_OF_LANE - occupied;
    for (const endpointId of waiting[lane]) {
      if (free <= 0) {
        break;
      }
      if (laneOf(endpointId, nowMs) !== lane) {
        // Its request has become slow meanwhile, or its memory was evicted.
        putInLane(endpointId, nowMs);
        continue;
      }
      const most = memories.has(endpointId) ? share : PLACES_OF_NEW_ENDPOINT;
      const places = Math.min(free, most - runningOf(endpointId));
      if (places > 0) {
        waiting[lane].delete(endpointId);
        given.push({ endpointId, places });
        free -= places;
      }
    }
    return given;
  };

  return {
    add: ({ id, isFailing }) => {
      const memory = memories.get(id);
      const nowMs = monotonicMs();
      if (isFailing && (memory === undefined || nowMs - memory.atMs > REMEMBERED_MS)) {
        memories.set(id, { lane: "silent", atMs: nowMs });
      }
      putInLane(id, nowMs);
    },
    take: () => {
      const nowMs = monotonicMs();
      const called = Map.groupBy(requests.keys(), (endpointId) => laneOf(endpointId, nowMs));
      return LANES.flatMap((lane) => divide(lane, called.get(lane) ?? [], nowMs));
    },
    begin: (endpointId) => {
      const request = { startedAtMs: monotonicMs() };
      const own = requests.get(endpointId) ?? new Set();
      requests.set(endpointId, own.add(request));
      running += 1;
      return (result) => {
        const nowMs = monotonicMs();
        if (result !== undefined) {
          const isQuick = nowMs - request.startedAtMs < SLOW_MS;
          const lane = isQuick ? "quick" : result.status === null ? "silent" : "slow";
          memories.set(endpointId, { lane, atMs: nowMs });
        }
        own.delete(request);
        if (own.size === 0) {
          requests.delete(endpointId);
        }
        running -= 1;
        if (isWaiting(endpointId)) {
          putInLane(endpointId, nowMs);
        }
      };
    },
    isEmpty: () => LANES.every((lane) => waiting[lane].size === 0),
    running: () => running,
  };
};
