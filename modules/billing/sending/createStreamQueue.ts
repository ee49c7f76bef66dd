import { MODES, ownerKey } from "../../records/owner.rules.ts";
import type { Mode, Owner } from "../../records/owner.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { listReadyStreams, listResumableStreams } from "./waitingStreams.sql.ts";
import type { UnsentStream } from "./waitingStreams.sql.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import { createScan } from "../../../db/createScan.ts";
import type { Scan } from "../../../db/createScan.ts";
import type { Context } from "../../../runtime/context.ts";

/** While usage waits to be found, part of Stripe's rate is lost, so this scan may take more of the time than others. */
const SCAN_SHARE = 0.25;

/**
 * Creates the scan for streams with something to send: usage that may be sealed, or an event that may be attempted. Each steps
 * through one index. One scan for both would read the rows that are done in one index again for each stream of the other, as long
 * as an open snapshot keeps them.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createStreamScan = (
  { db, clock }: Context,
  monotonicMs?: () => number,
): Scan<UnsentStream> => {
  const options = { share: SCAN_SHARE, monotonicMs };
  const scans = [
    createScan<UnsentStream>(
      clock,
      (page) => listReadyStreams(db, { ...page, lastSecond: lastSealableSecond(page.now) }),
      options,
    ),
    createScan<UnsentStream>(clock, (page) => listResumableStreams(db, page), options),
  ];
  return async () => {
    const found = await Promise.all(scans.map((scan) => scan()));
    return found.every((streams) => streams === null)
      ? null
      : found.flatMap((streams) => streams ?? []);
  };
};

/** How long a stream whose usage cannot be sealed is left alone: by its content, or by the configuration. */
const PAUSE_MS = 60_000;

/** Creates the queue of the streams that have usage to send, in the order in which that was found. */
export const createStreamQueue = (clock: Clock) => {
  const waiting: Readonly<Record<Mode, Map<string, UnsentStream>>> = {
    live: new Map(),
    test: new Map(),
  };
  /** Streams that were taken since the last scan. Older usage of theirs can wait for the next one. */
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
    const stream = { accountId, mode, kind, firstSecond };
    waiting[mode].set(ownerKey(stream), stream);
  };

  return {
    /** Adds the streams that a scan has found. */
    addFound: (streams: readonly UnsentStream[]): void => {
      // Older usage may have come since it was looked for.
      searched.clear();
      for (const stream of MODES.flatMap((mode) => [...waiting[mode].values()])) {
        put(stream, 0);
      }
      for (const stream of streams) {
        put(stream, stream.firstSecond);
      }
    },
    /** Adds a stream that has more to send, once its event of a second is settled. It is searched from that second on if possible. */
    add: (stream: Owner, second: number): void =>
      put(stream, searched.has(ownerKey(stream)) ? second : 0),
    pause: (stream: Owner): void => {
      pauses.set(ownerKey(stream), clock.now().getTime() + PAUSE_MS);
    },
    /** Forgets all streams until the next scan. */
    clear: (): void => MODES.forEach((mode) => waiting[mode].clear()),
    take: (mode: Mode, limit: number): readonly UnsentStream[] => {
      const nowMs = clock.now().getTime();
      const taken: UnsentStream[] = [];
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
