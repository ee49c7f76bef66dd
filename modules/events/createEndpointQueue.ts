import { LRUCache } from "lru-cache";
import type { EndpointPlaces } from "./attempts.sql.ts";
import type { DueEndpoint } from "./deliveries.sql.ts";
import { PLACES_OF_ENDPOINT } from "./decideDelivery.rules.ts";
import type { AttemptResult } from "./decideDelivery.rules.ts";

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

export type EndpointQueue = {
  /** Adds an endpoint that has due deliveries. One that is failing counts as silent unless it was called a short time ago. */
  readonly add: (endpoint: DueEndpoint) => void;
  /** Removes the endpoints that can receive deliveries now. Each lane is in the order in which they were added. */
  readonly take: () => readonly EndpointPlaces[];
  /** Occupies a place of an endpoint until the function that it returns is called; without a result after an interruption. */
  readonly begin: (endpointId: string) => (result?: AttemptResult) => void;
  readonly isEmpty: () => boolean;
  /** How many requests are in progress. */
  readonly running: () => number;
};

/** Creates what a shard knows of endpoints by its requests to them. */
const createRequests = (monotonicMs: () => number) => {
  /** The requests in progress, oldest first, by endpoint. */
  const requests = new Map<string, Set<{ readonly startedAtMs: number }>>();
  const known = new LRUCache<string, { readonly lane: Lane; readonly atMs: number }>({
    max: MAXIMUM_REMEMBERED,
  });

  const laneOf = (endpointId: string): Lane => {
    const lane = known.get(endpointId)?.lane ?? "new";
    const oldest = requests.get(endpointId)?.values().next().value;
    const isSlow = oldest !== undefined && monotonicMs() - oldest.startedAtMs >= SLOW_MS;
    return isSlow && lane !== "silent" ? "slow" : lane;
  };

  return {
    laneOf,
    isKnown: (endpointId: string): boolean => known.has(endpointId),
    /** Remembers that an endpoint is failing, unless it was called a short time ago. */
    markFailing: (endpointId: string): void => {
      const atMs = monotonicMs();
      const lastMs = known.get(endpointId)?.atMs ?? Number.NEGATIVE_INFINITY;
      if (atMs - lastMs > REMEMBERED_MS) {
        known.set(endpointId, { lane: "silent", atMs });
      }
    },
    begin: (endpointId: string): ((result?: AttemptResult) => void) => {
      const request = { startedAtMs: monotonicMs() };
      const own = requests.get(endpointId) ?? new Set();
      requests.set(endpointId, own.add(request));
      return (result) => {
        const atMs = monotonicMs();
        if (result !== undefined) {
          const isQuick = atMs - request.startedAtMs < SLOW_MS;
          const lane = isQuick ? "quick" : result.status === null ? "silent" : "slow";
          known.set(endpointId, { lane, atMs });
        }
        own.delete(request);
        if (own.size === 0) {
          requests.delete(endpointId);
        }
      };
    },
    runningOf: (endpointId: string): number => requests.get(endpointId)?.size ?? 0,
    /** The endpoints with requests in progress. */
    calledByLane: () => Map.groupBy(requests.keys(), laneOf),
    running: (): number => [...requests.values()].reduce((sum, { size }) => sum + size, 0),
  };
};

/**
 * Creates the queue of a shard's endpoints that have due deliveries. Each lane has separate places, so servers that are slow
 * or do not respond delay no quick one, and those that do not respond delay no slow one.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createEndpointQueue = (
  monotonicMs: () => number = () => performance.now(),
): EndpointQueue => {
  const requests = createRequests(monotonicMs);
  /** A search for free places reads only the beginning of a lane that has some. */
  const waiting: Readonly<Record<Lane, Set<string>>> = {
    quick: new Set(),
    new: new Set(),
    slow: new Set(),
    silent: new Set(),
  };

  /** Puts an endpoint at the end of its lane, unless it waits there. */
  const putInLane = (endpointId: string): void => {
    const lane = requests.laneOf(endpointId);
    for (const other of LANES) {
      if (other !== lane) {
        waiting[other].delete(endpointId);
      }
    }
    waiting[lane].add(endpointId);
  };

  /** Divides the free places of a lane among the endpoints that wait in it. */
  const divide = (lane: Lane, calledIds: readonly string[]): readonly EndpointPlaces[] => {
    // Quick and new endpoints free their places soon enough to take turns.
    const isShared = lane === "slow" || lane === "silent";
    const onlyCalled = calledIds.filter((id) => !waiting[lane].has(id)).length;
    const parts = isShared ? waiting[lane].size + onlyCalled : 1;
    const share = Math.max(1, Math.min(PLACES_OF_ENDPOINT, Math.floor(PLACES_OF_LANE / parts)));
    const given: EndpointPlaces[] = [];
    let free = PLACES_OF_LANE - calledIds.reduce((sum, id) => sum + requests.runningOf(id), 0);
    for (const endpointId of waiting[lane]) {
      if (free <= 0) {
        break;
      }
      if (requests.laneOf(endpointId) !== lane) {
        // A request has become slow, or what was known was evicted.
        putInLane(endpointId);
        continue;
      }
      const most = requests.isKnown(endpointId) ? share : PLACES_OF_NEW_ENDPOINT;
      const places = Math.min(free, most - requests.runningOf(endpointId));
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
      if (isFailing) {
        requests.markFailing(id);
      }
      putInLane(id);
    },
    take: () => {
      const called = requests.calledByLane();
      return LANES.flatMap((lane) => divide(lane, called.get(lane) ?? []));
    },
    begin: (endpointId) => {
      const end = requests.begin(endpointId);
      return (result) => {
        end(result);
        if (LANES.some((lane) => waiting[lane].has(endpointId))) {
          putInLane(endpointId);
        }
      };
    },
    isEmpty: () => LANES.every((lane) => waiting[lane].size === 0),
    running: requests.running,
  };
};
