import { LRUCache } from "lru-cache";
import type { DueEndpoint } from "./pendingEndpoints.sql.ts";
import type { EndpointPlaces } from "./attempts.sql.ts";
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

type Request = { readonly startedAtMs: number };

class EndpointLanes implements EndpointQueue {
  readonly #monotonicMs: () => number;
  /** A search for free places reads only the beginning of a lane that has some. */
  readonly #waiting: Readonly<Record<Lane, Set<string>>> = {
    quick: new Set(),
    new: new Set(),
    slow: new Set(),
    silent: new Set(),
  };
  /** The requests in progress, oldest first, by endpoint. */
  readonly #requests = new Map<string, Set<Request>>();
  readonly #memories = new LRUCache<string, Memory>({ max: MAXIMUM_REMEMBERED });
  #running = 0;

  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs;
  }

  add({ id, isFailing }: DueEndpoint): void {
    const memory = this.#memories.get(id);
    const nowMs = this.#monotonicMs();
    if (isFailing && (memory === undefined || nowMs - memory.atMs > REMEMBERED_MS)) {
      this.#memories.set(id, { lane: "silent", atMs: nowMs });
    }
    this.#putInLane(id, nowMs);
  }

  take(): readonly EndpointPlaces[] {
    const nowMs = this.#monotonicMs();
    const called = Map.groupBy(this.#requests.keys(), (endpointId) =>
      this.#laneOf(endpointId, nowMs),
    );
    return LANES.flatMap((lane) => this.#divide(lane, called.get(lane) ?? [], nowMs));
  }

  begin(endpointId: string): EndRequest {
    const request = { startedAtMs: this.#monotonicMs() };
    const own = this.#requests.get(endpointId) ?? new Set();
    this.#requests.set(endpointId, own.add(request));
    this.#running += 1;
    return (result) => {
      const nowMs = this.#monotonicMs();
      if (result !== undefined) {
        const isQuick = nowMs - request.startedAtMs < SLOW_MS;
        const lane = isQuick ? "quick" : result.status === null ? "silent" : "slow";
        this.#memories.set(endpointId, { lane, atMs: nowMs });
      }
      own.delete(request);
      if (own.size === 0) {
        this.#requests.delete(endpointId);
      }
      this.#running -= 1;
      if (LANES.some((lane) => this.#waiting[lane].has(endpointId))) {
        this.#putInLane(endpointId, nowMs);
      }
    };
  }

  isEmpty(): boolean {
    return LANES.every((lane) => this.#waiting[lane].size === 0);
  }

  running(): number {
    return this.#running;
  }

  #runningOf(endpointId: string): number {
    return this.#requests.get(endpointId)?.size ?? 0;
  }

  #laneOf(endpointId: string, nowMs: number): Lane {
    const lane = this.#memories.get(endpointId)?.lane ?? "new";
    const oldest = this.#requests.get(endpointId)?.values().next().value;
    const isSlow = oldest !== undefined && nowMs - oldest.startedAtMs >= SLOW_MS;
    return isSlow && lane !== "silent" ? "slow" : lane;
  }

  /** Puts an endpoint at the end of its lane, unless it waits there. */
  #putInLane(endpointId: string, nowMs: number): void {
    const lane = this.#laneOf(endpointId, nowMs);
    if (!this.#waiting[lane].has(endpointId)) {
      for (const other of LANES) {
        this.#waiting[other].delete(endpointId);
      }
      this.#waiting[lane].add(endpointId);
    }
  }

  /** Divides the free places of a lane among the endpoints that wait in it. */
  #divide(lane: Lane, calledIds: readonly string[], nowMs: number): readonly EndpointPlaces[] {
    const waiting = this.#waiting[lane];
    const occupied = calledIds.reduce((sum, endpointId) => sum + this.#runningOf(endpointId), 0);
    // The others free their places soon enough to take turns.
    const isShared = lane === "slow" || lane === "silent";
    const onlyCalled = calledIds.filter((endpointId) => !waiting.has(endpointId));
    const parts = isShared ? waiting.size + onlyCalled.length : 1;
    const share = Math.max(1, Math.min(PLACES_OF_ENDPOINT, Math.floor(PLACES_OF_LANE / parts)));
    const given: EndpointPlaces[] = [];
    let free = PLACES_OF_LANE - occupied;
    for (const endpointId of waiting) {
      if (free <= 0) {
        break;
      }
      if (this.#laneOf(endpointId, nowMs) !== lane) {
        // Its request has become slow meanwhile, or its memory was evicted.
        this.#putInLane(endpointId, nowMs);
        continue;
      }
      const most = this.#memories.has(endpointId) ? share : PLACES_OF_NEW_ENDPOINT;
      const places = Math.min(free, most - this.#runningOf(endpointId));
      if (places > 0) {
        waiting.delete(endpointId);
        given.push({ endpointId, places });
        free -= places;
      }
    }
    return given;
  }
}

/**
 * Creates the queue of a shard's endpoints that have due deliveries. Each lane has places of its own, so servers that are
 * slow or do not respond delay no quick one, and those that do not respond delay no slow one.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createEndpointQueue = (
  monotonicMs: () => number = () => performance.now(),
): EndpointQueue => new EndpointLanes(monotonicMs);
