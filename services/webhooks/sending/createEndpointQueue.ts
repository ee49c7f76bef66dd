import { LRUCache } from "lru-cache";
import type { DueEndpoint, EndpointPlaces } from "../../../db/webhooks/deliveries.ts";

/** How many requests an endpoint receives at the same time. */
const PLACES_OF_ENDPOINT = 10;

/** Until it has responded once, so that many servers that never do occupy few places. */
const PLACES_OF_NEW_ENDPOINT = 1;

/** How many requests a shard makes at the same time. */
const PLACES = 500;

/** How many of these are for slow endpoints, so that they leave places to the others. */
const PLACES_FOR_SLOW = PLACES / 2;

/** An endpoint is slow if its last request took this long, or if one of those in progress has. */
const SLOW_MS = 1000;

const MAXIMUM_REMEMBERED = 100_000;

/** How the endpoints' last requests went, by endpoint. It outlasts a run of a shard. */
export type EndpointSpeeds = LRUCache<string, "quick" | "slow">;

export const createEndpointSpeeds = (): EndpointSpeeds => new LRUCache({ max: MAXIMUM_REMEMBERED });

export type EndpointQueue = {
  /** Adds an endpoint that has due deliveries. One that is failing counts as slow until it has been called. */
  readonly add: (endpoint: DueEndpoint) => void;
  /** Removes the endpoints that can receive deliveries now, those first that were added first, and says how many. */
  readonly take: () => readonly EndpointPlaces[];
  /** Occupies a place until the function that it returns is called. */
  readonly begin: (endpointId: string) => () => void;
  /** Whether endpoints that are not slow wait for all places. */
  readonly isFull: () => boolean;
  readonly isEmpty: () => boolean;
  /** How many places are occupied. */
  readonly running: () => number;
};

/**
 * Creates the queue of a shard's endpoints that have due deliveries. It divides the places, so that servers that are slow or
 * do not respond leave enough to the others, however many deliveries they have.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createEndpointQueue = (
  speeds: EndpointSpeeds,
  monotonicMs: () => number = () => performance.now(),
): EndpointQueue => {
  const waiting = new Set<string>();
  /** When the requests in progress began, oldest first, by endpoint. */
  const requests = new Map<string, Set<{ readonly startedAtMs: number }>>();
  let running = 0;
  let quickWaiting = 0;

  const runningOf = (endpointId: string): number => requests.get(endpointId)?.size ?? 0;

  const isSlow = (endpointId: string, nowMs: number): boolean => {
    if (speeds.get(endpointId) === "slow") {
      return true;
    }
    const oldest = requests.get(endpointId)?.values().next().value;
    return oldest !== undefined && nowMs - oldest.startedAtMs >= SLOW_MS;
  };

  /** Gives so many places to endpoints, and to none more than its share. Returns how many each of them gets. */
  const give = (
    endpointIds: readonly string[],
    free: number,
    shareOf: (endpointId: string) => number,
  ): readonly EndpointPlaces[] => {
    const given: EndpointPlaces[] = [];
    let left = free;
    for (const endpointId of endpointIds) {
      if (left <= 0) {
        break;
      }
      const places = Math.min(left, shareOf(endpointId) - runningOf(endpointId));
      if (places > 0) {
        given.push({ endpointId, places });
        waiting.delete(endpointId);
        left -= places;
      }
    }
    return given;
  };

  return {
    add: ({ id, isFailing }) => {
      if (isFailing && !speeds.has(id)) {
        speeds.set(id, "slow");
      }
      waiting.add(id);
    },
    take: () => {
      const nowMs = monotonicMs();
      const quick: string[] = [];
      const slow: string[] = [];
      for (const endpointId of waiting) {
        (isSlow(endpointId, nowMs) ? slow : quick).push(endpointId);
      }
      const toQuick = give(quick, PLACES - running, (endpointId) =>
        speeds.has(endpointId) ? PLACES_OF_ENDPOINT : PLACES_OF_NEW_ENDPOINT,
      );
      quickWaiting = quick.length - toQuick.length;
      const free = PLACES - running - toQuick.reduce((sum, { places }) => sum + places, 0);
      const calledSlow = [...requests.keys()].filter((endpointId) => isSlow(endpointId, nowMs));
      const occupied = calledSlow.reduce((sum, endpointId) => sum + runningOf(endpointId), 0);
      const fair = Math.floor(PLACES_FOR_SLOW / new Set([...slow, ...calledSlow]).size);
      const share = Math.max(1, Math.min(PLACES_OF_ENDPOINT, fair));
      const toSlow = give(slow, Math.min(free, PLACES_FOR_SLOW - occupied), () => share);
      return [...toQuick, ...toSlow];
    },
    begin: (endpointId) => {
      const request = { startedAtMs: monotonicMs() };
      const own = requests.get(endpointId) ?? new Set();
      requests.set(endpointId, own.add(request));
      running += 1;
      return () => {
        const isQuick = monotonicMs() - request.startedAtMs < SLOW_MS;
        speeds.set(endpointId, isQuick ? "quick" : "slow");
        own.delete(request);
        if (own.size === 0) {
          requests.delete(endpointId);
        }
        running -= 1;
      };
    },
    isFull: () => quickWaiting >= PLACES,
    isEmpty: () => waiting.size === 0,
    running: () => running,
  };
};
