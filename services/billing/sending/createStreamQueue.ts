import type { UsageStream } from "../../../domain/billing/usage.ts";
import { streamKey } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { StreamScans } from "./createStreamScans.ts";
import type { UnsealedStream } from "./sealMeterEvents.ts";

/** How long a stream whose usage cannot be sealed is left alone: by its content, or by the configuration. */
const REST_MS = 60_000;

/** A stream to seal, or whose unfinished event is to be continued with. */
export type QueuedStream = UnsealedStream & { readonly isResumed: boolean };

export type StreamQueue = {
  /**
   * Adds the shard's streams that have something to send.
   * @param listSentKeys returns the keys of streams whose events are sent. They are left out, because a scan may be older.
   * @returns whether a scan has found any
   */
  readonly scan: (listSentKeys: () => Iterable<string>) => Promise<boolean>;
  /** Adds a stream that has more to send as soon as its event of a second is settled. */
  readonly add: (stream: UsageStream, second: number) => void;
  /** Leaves a stream alone for a minute. */
  readonly rest: (stream: UsageStream) => void;
  /** Forgets streams whose unfinished event another worker may have continued with. */
  readonly forgetResumed: () => void;
  /** Forgets all streams until the next scan. */
  readonly clear: () => void;
  /** Removes the streams that were added first. */
  readonly take: (limit: number) => readonly QueuedStream[];
  readonly isEmpty: () => boolean;
};

/** Creates the queue of a shard's streams that have usage to send, in the order in which that was found. */
export const createStreamQueue = (clock: Clock, shard: number, scans: StreamScans): StreamQueue => {
  const waiting = new Map<string, QueuedStream>();
  /** Streams that were taken since the last scan. Their older usage has been looked for. */
  const searched = new Set<string>();
  /** Streams that are left alone, with the time until when. */
  const resting = new Map<string, number>();

  const isResting = (key: string, nowMs: number): boolean => {
    const until = resting.get(key);
    // A rest that would last longer began before the clock was set back.
    const isOver = until === undefined || until <= nowMs || until > nowMs + REST_MS;
    if (isOver) {
      resting.delete(key);
    }
    return !isOver;
  };

  /** Adds a stream. One that waits already keeps its place. */
  const put = (stream: UsageStream, queued: Omit<QueuedStream, keyof UsageStream>): void => {
    const { accountId, mode, meter } = stream;
    waiting.set(streamKey(stream), { accountId, mode, meter, ...queued });
  };

  const isResumed = (stream: UsageStream): boolean =>
    waiting.get(streamKey(stream))?.isResumed === true;

  const scanResumable = async (listSentKeys: () => Iterable<string>): Promise<boolean> => {
    const found = (await scans.resumable(shard)) ?? [];
    const sent = new Set(listSentKeys());
    const streams = found.filter((stream) => !sent.has(streamKey(stream)));
    for (const stream of streams) {
      put(stream, { firstSecond: 0, isResumed: true });
    }
    return streams.length > 0;
  };

  const scanReady = async (listSentKeys: () => Iterable<string>): Promise<boolean> => {
    const found = await scans.ready(shard);
    if (found === null) {
      return false;
    }
    const sent = new Set(listSentKeys());
    const streams = found.filter((stream) => !sent.has(streamKey(stream)));
    // Older usage may have come since it was looked for.
    searched.clear();
    for (const stream of waiting.values()) {
      put(stream, { ...stream, firstSecond: 0 });
    }
    for (const stream of streams) {
      put(stream, { firstSecond: stream.second, isResumed: isResumed(stream) });
    }
    return streams.length > 0;
  };

  return {
    scan: async (listSentKeys) => {
      const [hasResumable, hasReady] = await Promise.all([
        scanResumable(listSentKeys),
        scanReady(listSentKeys),
      ]);
      return hasResumable || hasReady;
    },
    add: (stream, second) =>
      put(stream, {
        firstSecond: searched.has(streamKey(stream)) ? second : 0,
        isResumed: isResumed(stream),
      }),
    rest: (stream) => {
      resting.set(streamKey(stream), clock.now().getTime() + REST_MS);
    },
    forgetResumed: () => {
      for (const [key, stream] of waiting) {
        if (stream.isResumed) {
          waiting.delete(key);
        }
      }
    },
    clear: () => waiting.clear(),
    take: (limit) => {
      const nowMs = clock.now().getTime();
      const taken: QueuedStream[] = [];
      for (const [key, stream] of waiting) {
        if (taken.length === limit) {
          break;
        }
        waiting.delete(key);
        if (!isResting(key, nowMs)) {
          searched.add(key);
          taken.push(stream);
        }
      }
      return taken;
    },
    isEmpty: () => waiting.size === 0,
  };
};
