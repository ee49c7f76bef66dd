import type { CommonQueryMethods } from "slonik";
import { listResumableStreams } from "../../../db/billing/sending/usageShards.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { lastSealableSecond, streamKey } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import { leaseOf } from "./attemptLease.ts";
import type { ScanStreams } from "./createStreamScans.ts";

/** How long a stream whose usage cannot be sealed is left alone: by its content, or by the configuration. */
const REST_MS = 60_000;

/** The next streams to seal or to continue with. */
export type QueuedStreams = {
  readonly streams: readonly UsageStream[];
  /** Those of them that have an unfinished event. */
  readonly resumed: ReadonlySet<UsageStream>;
};

export type StreamQueue = {
  /** Begins to scan all streams of the shard for usage, unless a scan is in progress. */
  readonly startScan: () => void;
  /** Adds a stream that has more to send as soon as its event is settled. */
  readonly add: (stream: UsageStream) => void;
  /** Leaves a stream alone for a minute. */
  readonly rest: (stream: UsageStream) => void;
  /** Forgets all streams until the next scan. */
  readonly clear: () => void;
  readonly take: (limit: number) => Promise<QueuedStreams>;
  readonly isScanning: () => boolean;
  readonly isEmpty: () => boolean;
};

/** Creates the queue of a shard's streams that have usage to send, or that a scan may find to have some. */
export const createStreamQueue = (
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
  shard: number,
  scanStreams: ScanStreams,
): StreamQueue => {
  let scan: { readonly after: UsageStream | null; readonly isFirst: boolean } | null = null;
  /** Streams that were added. */
  const behind = new Map<string, UsageStream>();
  /** Streams that are left alone, with the time until when. */
  const resting = new Map<string, number>();

  const isResting = (stream: UsageStream, nowMs: number): boolean => {
    const until = resting.get(streamKey(stream));
    // A rest that would last longer began before the clock was set back.
    const isOver = until === undefined || until <= nowMs || until > nowMs + REST_MS;
    if (isOver) {
      resting.delete(streamKey(stream));
    }
    return !isOver;
  };

  const takeNext = async (limit: number): Promise<QueuedStreams> => {
    if (scan === null) {
      const streams = [...behind.values()].slice(0, limit);
      for (const stream of streams) {
        behind.delete(streamKey(stream));
      }
      return { streams, resumed: new Set() };
    }
    const now = clock.now();
    const lease = leaseOf({ at: now });
    const resumed = scan.isFirst ? await listResumableStreams(db, { shard, lease, limit }) : [];
    const { items: streams, next } = await scanStreams({
      shard,
      after: scan.after,
      second: lastSealableSecond(now),
      limit: Math.max(1, limit - resumed.length),
    });
    // Others that are behind stay: the scan may be older than what they have to send.
    for (const stream of streams) {
      behind.delete(streamKey(stream));
    }
    scan = next === null ? null : { after: next, isFirst: false };
    return { streams: [...resumed, ...streams], resumed: new Set(resumed) };
  };

  return {
    startScan: () => {
      scan ??= { after: null, isFirst: true };
    },
    add: (stream) => {
      behind.set(streamKey(stream), stream);
    },
    rest: (stream) => {
      resting.set(streamKey(stream), clock.now().getTime() + REST_MS);
    },
    clear: () => {
      scan = null;
      behind.clear();
    },
    take: async (limit) => {
      const { streams, resumed } = await takeNext(limit);
      const nowMs = clock.now().getTime();
      return { streams: streams.filter((stream) => !isResting(stream, nowMs)), resumed };
    },
    isScanning: () => scan !== null,
    isEmpty: () => scan === null && behind.size === 0,
  };
};
