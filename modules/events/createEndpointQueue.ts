import { LRUCache } from "lru-cache";
import type { DueEndpoint, EndpointPlaces } from "./attempts.sql.ts";
import { PLACES_OF_ENDPOINT } from "./decideDelivery.rules.ts";
import type { AttemptResult } from "./decideDelivery.rules.ts";

/** Until it has responded to this worker once. */
const PLACES_OF_NEW_ENDPOINT = 1;

/**
 * How many requests are made at the same time to the endpoints of a lane. More would keep a busy worker from sending each of
 * them within a second.
 */
const PLACES_OF_LANE = 240;

/** A request that takes as long is not quick. */
const SLOW_MS = 1000;

const MAXIMUM_REMEMBERED = 100_000;

/**
 * `new`: this worker has not called the endpoint. `quick`: the last request took less than a second. `slow`: it took longer,
 * or one in progress has. `silent`: it took longer and had no response, or the endpoint was failing at another worker.
 */
const LANES = ["quick", "new", "slow", "silent"] as const;
type Lane = (typeof LANES)[number];

const createLanes = (): Readonly<Record<Lane, Set<string>>> => ({
  quick: new Set(),
  new: new Set(),
  slow: new Set(),
  silent: new Set(),
});

export type EndpointQueue = {
  /** Adds an endpoint that has due deliveries. */
  readonly add: (endpoint: DueEndpoint) => void;
  /** Removes the endpoints that can receive deliveries now. Each lane is in the order in which they were added. */
  readonly take: () => readonly EndpointPlaces[];
  /** Occupies a place of an endpoint until the function that it returns is called; without a result after an interruption. */
  readonly begin: (endpointId: string) => (result?: Pick<AttemptResult, "status">) => void;
  readonly isEmpty: () => boolean;
  /** How many requests are in progress. */
  readonly running: () => number;
};

/**
 * Creates the queue of the endpoints that have due deliveries. Each lane has separate places, so servers that are slow
 * or do not respond delay no quick one, and those that do not respond delay no slow one.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createEndpointQueue = (
  monotonicMs: () => number = () => performance.now(),
): EndpointQueue => {
  /** A search for free places reads only the beginning of a lane that has some. */
  const waiting = createLanes();
  /** When the requests in progress began, oldest first, by endpoint. */
  const requests = new Map<string, Set<{ readonly startedAtMs: number }>>();
  const known = new LRUCache<string, Lane>({ max: MAXIMUM_REMEMBERED });

  const isSlow = ({ startedAtMs }: { readonly startedAtMs: number }): boolean =>
    monotonicMs() - startedAtMs >= SLOW_MS;

  const laneOf = (endpointId: string): Lane => {
    const [oldest] = requests.get(endpointId) ?? [];
    const lane = known.get(endpointId) ?? "new";
    return oldest && isSlow(oldest) && lane !== "silent" ? "slow" : lane;
  };

  const runningOf = (endpointId: string): number => requests.get(endpointId)?.size ?? 0;

  /** Puts an endpoint at the end of its lane, unless it waits there. */
  const put = (endpointId: string): void => {
    const lane = laneOf(endpointId);
    for (const other of LANES) {
      if (other !== lane) {
        waiting[other].delete(endpointId);
      }
    }
    waiting[lane].add(endpointId);
  };

  /** Divides the free places of a lane equally among its endpoints. */
  const divide = (lane: Lane): readonly EndpointPlaces[] => {
    const called = [...requests.keys()].filter((id) => laneOf(id) === lane);
    const parts = waiting[lane].size + called.filter((id) => !waiting[lane].has(id)).length;
    const share = Math.max(1, Math.min(PLACES_OF_ENDPOINT, Math.floor(PLACES_OF_LANE / parts)));
    const given: EndpointPlaces[] = [];
    let free = PLACES_OF_LANE - called.reduce((sum, id) => sum + runningOf(id), 0);
    for (const endpointId of waiting[lane]) {
      if (free <= 0) {
        break;
      }
      if (laneOf(endpointId) !== lane) {
        // A request has become slow, or what was known was evicted.
        put(endpointId);
        continue;
      }
      const most = known.has(endpointId) ? share : PLACES_OF_NEW_ENDPOINT;
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
      if (isFailing && !known.has(id)) {
        known.set(id, "silent");
      }
      put(id);
    },
    take: () => LANES.flatMap(divide),
    begin: (endpointId) => {
      const request = { startedAtMs: monotonicMs() };
      const own = requests.get(endpointId) ?? new Set();
      requests.set(endpointId, own.add(request));
      return (result) => {
        if (result) {
          const slowLane = result.status === null ? "silent" : "slow";
          known.set(endpointId, isSlow(request) ? slowLane : "quick");
        }
        own.delete(request);
        if (own.size === 0) {
          requests.delete(endpointId);
        }
        if (LANES.some((lane) => waiting[lane].has(endpointId))) {
          put(endpointId);
        }
      };
    },
    isEmpty: () => LANES.every((lane) => waiting[lane].size === 0),
    running: () => [...requests.values()].reduce((sum, { size }) => sum + size, 0),
  };
};
