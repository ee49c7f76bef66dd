import { MODES, ownerKey } from "../../records/owner.rules.ts";
import type { Mode, Owner } from "../../records/owner.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import type { UnsealedStream } from "./sealMeterEvents.ts";
import { listReadyStreams, listResumableStreams } from "./waitingStreams.sql.ts";
import type { ReadyStream } from "./waitingStreams.sql.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import { createScan } from "../../../db/createScan.ts";
import type { Scan } from "../../../db/createScan.ts";
import type { Context } from "../../../runtime/context.ts";

export type StreamScans = {
  /** Scans for streams with usage that may be sealed. */
  readonly ready: Scan<ReadyStream>;
  /** Scans for streams whose unfinished event the sender continues with. */
  readonly resumable: Scan<Owner>;
};

/** While usage waits to be found, part of Stripe's rate is lost, so this scan may take more of the time than others. */
const READY_SHARE = 0.25;

/**
 * Creates the scans for usage to send.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createStreamScans = (
  { db, clock }: Context,
  monotonicMs?: () => number,
): StreamScans => ({
  ready: createScan<ReadyStream>(
    clock,
    ({ after, now, limit }) =>
      listReadyStreams(db, { after, lastSecond: lastSealableSecond(now), limit }),
    { share: READY_SHARE, monotonicMs },
  ),
  resumable: createScan<Owner>(clock, (page) => listResumableStreams(db, page), { monotonicMs }),
});

/** How long a stream whose usage cannot be sealed is left alone: by its content, or by the configuration. */
const PAUSE_MS = 60_000;

const omit = <Stream extends Owner>(
  streams: readonly Stream[],
  keys: Iterable<string>,
): readonly Stream[] => {
  const omitted = new Set(keys);
  return streams.filter((stream) => !omitted.has(ownerKey(stream)));
};

/** Creates the queue of the streams that have usage to send, in the order in which that was found. */
export const createStreamQueue = (clock: Clock, scans: StreamScans) => {
  const waiting: Readonly<Record<Mode, Map<string, UnsealedStream>>> = {
    live: new Map(),
    test: new Map(),
  };
  /** Streams that were taken since the last scan of ready ones. Older usage of theirs can wait for the next one. */
  const searched = new Set<string>();
  const pauses = new Map<string, number>();

  const isPaused = (key: string, nowMs: number): boolean => {
    const until = pauses.get(key);
    // A pause that would last longer began before the clock was set back.
    const isOver = until === undefined || until <= nowMs || until > nowMs + PAUSE_MS;
    if (isOver) {
      pauses.delete(key);
    }
    return !isOver;
  };

  /** Adds a stream, to be searched from a second on. One that waits already keeps its place. */
  const put = ({ accountId, mode, kind }: Owner, firstSecond: number): void => {
    const stream = { accountId, mode, kind };
    waiting[mode].set(ownerKey(stream), { ...stream, firstSecond });
  };

  const scanResumable = async (listSentKeys: () => Iterable<string>): Promise<boolean> => {
    const found = (await scans.resumable()) ?? [];
    const streams = omit(found, listSentKeys());
    for (const stream of streams) {
      put(stream, 0);
    }
    return streams.length > 0;
  };

  const scanReady = async (listSentKeys: () => Iterable<string>): Promise<boolean> => {
    const found = await scans.ready();
    if (found === null) {
      return false;
    }
    const streams = omit(found, listSentKeys());
    // Older usage may have come since it was looked for.
    searched.clear();
    for (const stream of MODES.flatMap((mode) => [...waiting[mode].values()])) {
      put(stream, 0);
    }
    for (const stream of streams) {
      put(stream, stream.second);
    }
    return streams.length > 0;
  };

  return {
    /**
     * Adds the streams that have something to send, and returns whether a scan has found any.
     * @param listSentKeys returns the keys of streams that are sealed and whose events are sent. They are left out, because a scan
     *   may be older.
     */
    scan: async (listSentKeys: () => Iterable<string>): Promise<boolean> => {
      const found = await Promise.all([scanResumable(listSentKeys), scanReady(listSentKeys)]);
      return found.includes(true);
    },
    /** Adds a stream that has more to send, once its event of a second is settled. It is searched from that second on if possible. */
    add: (stream: Owner, second: number): void =>
      put(stream, searched.has(ownerKey(stream)) ? second : 0),
    pause: (stream: Owner): void => {
      pauses.set(ownerKey(stream), clock.now().getTime() + PAUSE_MS);
    },
    /** Forgets all streams until the next scan. */
    clear: (): void => MODES.forEach((mode) => waiting[mode].clear()),
    take: (mode: Mode, limit: number): readonly UnsealedStream[] => {
      const nowMs = clock.now().getTime();
      const taken: UnsealedStream[] = [];
      for (const [key, stream] of waiting[mode]) {
        if (taken.length === limit) {
          break;
        }
        waiting[mode].delete(key);
        if (!isPaused(key, nowMs)) {
          searched.add(key);
          taken.push(stream);
        }
      }
      return taken;
    },
    has: (mode: Mode): boolean => waiting[mode].size > 0,
    isEmpty: (): boolean => MODES.every((mode) => waiting[mode].size === 0),
  };
};

export type StreamQueue = ReturnType<typeof createStreamQueue>;
