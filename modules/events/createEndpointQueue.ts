import type { EndpointPlaces } from "./attempts.sql.ts";
import { PLACES_OF_ENDPOINT } from "./decideDelivery.rules.ts";

/** How many requests may be in their first second. More would keep a busy worker from sending each of them within it. */
const PLACES = 240;

const FIRST_SECOND_MS = 1000;

export type EndpointQueue = {
  /** Adds an endpoint that has due deliveries. */
  readonly add: (endpointId: string) => void;
  /** Removes the endpoints that can receive deliveries now, in the order in which they were added. */
  readonly take: () => readonly EndpointPlaces[];
  /** Occupies a place of an endpoint until the function that it returns is called. */
  readonly begin: (endpointId: string) => () => void;
  readonly isEmpty: () => boolean;
  /** How many requests are in progress. */
  readonly running: () => number;
};

/**
 * Creates the queue of the endpoints that have due deliveries, which share the places equally. A request that lasts longer than
 * a second occupies only a place of its endpoint, and such endpoints share with each other only, so servers that are slow or
 * do not respond leave the others their places.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createEndpointQueue = (
  monotonicMs: () => number = () => performance.now(),
): EndpointQueue => {
  const waiting = new Set<string>();
  const requests = new Set<{ readonly endpointId: string; readonly startedAtMs: number }>();

  return {
    add: (endpointId) => {
      waiting.add(endpointId);
    },
    take: () => {
      const inProgress = Map.groupBy(requests, ({ endpointId }) => endpointId);
      const youngSinceMs = monotonicMs() - FIRST_SECOND_MS;
      const slow = new Set(
        [...requests].flatMap(({ endpointId, startedAtMs }) =>
          startedAtMs <= youngSinceMs && waiting.has(endpointId) ? [endpointId] : [],
        ),
      );
      const shareOf = (count: number): number =>
        Math.max(1, Math.min(PLACES_OF_ENDPOINT, Math.floor(PLACES / count)));
      const shares = { slow: shareOf(slow.size), quick: shareOf(waiting.size - slow.size) };
      let free = PLACES;
      for (const { startedAtMs } of requests) {
        free -= startedAtMs > youngSinceMs ? 1 : 0;
      }
      const taken: EndpointPlaces[] = [];
      for (const endpointId of waiting) {
        if (free <= 0) {
          break;
        }
        const share = shares[slow.has(endpointId) ? "slow" : "quick"];
        const places = Math.min(free, share - (inProgress.get(endpointId)?.length ?? 0));
        if (places > 0) {
          waiting.delete(endpointId);
          taken.push({ endpointId, places });
          free -= places;
        }
      }
      return taken;
    },
    begin: (endpointId) => {
      const request = { endpointId, startedAtMs: monotonicMs() };
      requests.add(request);
      return () => requests.delete(request);
    },
    isEmpty: () => waiting.size === 0,
    running: () => requests.size,
  };
};
