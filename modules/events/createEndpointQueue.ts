import type { EndpointPlaces } from "./attempts.sql.ts";
import { PLACES_OF_ENDPOINT } from "./decideDelivery.rules.ts";

/**
 * How many requests are made at the same time to the endpoints of a lane. More would keep a busy worker from sending each of
 * them within a second.
 */
const PLACES_OF_LANE = 240;

/** A request that takes as long is not quick. */
const SLOW_MS = 1000;

/** `slow`: the last request took more than a second, or one in progress has. All others are `quick`. */
const LANES = ["quick", "slow"] as const;
type Lane = (typeof LANES)[number];

export type EndpointQueue = {
  /** Adds an endpoint that has due deliveries. */
  readonly add: (endpointId: string) => void;
  /** Removes the endpoints that can receive deliveries now. Each lane is in the order in which they were added. */
  readonly take: () => readonly EndpointPlaces[];
  /** Occupies a place of an endpoint until the function that it returns is called. */
  readonly begin: (endpointId: string) => () => void;
  readonly isEmpty: () => boolean;
  /** How many requests are in progress. */
  readonly running: () => number;
};

/**
 * Creates the queue of the endpoints that have due deliveries. Each lane has separate places, so servers that are slow or do
 * not respond delay no quick one.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createEndpointQueue = (
  monotonicMs: () => number = () => performance.now(),
): EndpointQueue => {
  /** A search for free places reads only the beginning of a lane that has some. */
  const waiting: Readonly<Record<Lane, Set<string>>> = { quick: new Set(), slow: new Set() };
  /** When the requests in progress began, oldest first, by endpoint. */
  const requests = new Map<string, Set<{ readonly startedAtMs: number }>>();
  /** The endpoints whose last request was slow. */
  const slow = new Set<string>();

  const laneSince = (startedAtMs: number): Lane =>
    monotonicMs() - startedAtMs >= SLOW_MS ? "slow" : "quick";

  const laneOf = (endpointId: string): Lane => {
    const [oldest] = requests.get(endpointId) ?? [];
    return slow.has(endpointId) ? "slow" : laneSince(oldest?.startedAtMs ?? Infinity);
  };

  /** Puts an endpoint at the end of its lane, unless it waits there. */
  const put = (endpointId: string): void => {
    const lane = laneOf(endpointId);
    waiting[lane === "quick" ? "slow" : "quick"].delete(endpointId);
    waiting[lane].add(endpointId);
  };

  /** Divides the free places of a lane equally among its endpoints. */
  const divide = (lane: Lane): readonly EndpointPlaces[] => {
    const called = [...requests].filter(([id]) => laneOf(id) === lane);
    const parts = waiting[lane].size + called.filter(([id]) => !waiting[lane].has(id)).length;
    const share = Math.max(1, Math.min(PLACES_OF_ENDPOINT, Math.floor(PLACES_OF_LANE / parts)));
    const given: EndpointPlaces[] = [];
    let free = PLACES_OF_LANE - called.reduce((sum, [, { size }]) => sum + size, 0);
    for (const endpointId of waiting[lane]) {
      if (free <= 0) {
        break;
      }
      if (laneOf(endpointId) !== lane) {
        // A request has become slow.
        put(endpointId);
        continue;
      }
      const places = Math.min(free, share - (requests.get(endpointId)?.size ?? 0));
      if (places > 0) {
        waiting[lane].delete(endpointId);
        given.push({ endpointId, places });
        free -= places;
      }
    }
    return given;
  };

  const isWaiting = (endpointId: string): boolean =>
    LANES.some((lane) => waiting[lane].has(endpointId));

  return {
    add: put,
    take: () => LANES.flatMap(divide),
    begin: (endpointId) => {
      const request = { startedAtMs: monotonicMs() };
      const own = requests.get(endpointId) ?? new Set();
      requests.set(endpointId, own.add(request));
      return () => {
        if (laneSince(request.startedAtMs) === "slow") {
          slow.add(endpointId);
        } else {
          slow.delete(endpointId);
        }
        own.delete(request);
        if (own.size === 0) {
          requests.delete(endpointId);
        }
        if (isWaiting(endpointId)) {
          put(endpointId);
        }
      };
    },
    isEmpty: () => LANES.every((lane) => waiting[lane].size === 0),
    running: () => [...requests.values()].reduce((sum, { size }) => sum + size, 0),
  };
};
