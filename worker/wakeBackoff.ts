import type { WaitingStream } from "../db/billing/usageFacts.ts";
import type { UsageStream } from "../domain/billing/usage.ts";

/**
 * The delay before a stream without progress is woken again; it doubles up to the maximum. Such a stream's sender waits
 * for the processor, or was terminated and has to be started again.
 */
const INITIAL_DELAY_MS = 2000;
const MAX_DELAY_MS = 60 * 1000;

/**
 * A small Temporal server runs about 60 short workflows a second, and a wake costs about as much as one. With more
 * streams than that, each is woken less often and finds more to send.
 */
const MAX_WAKES_PER_PASS = 40;

/** The wakes without progress, in about three minutes, after which a sender may be stuck. */
const WAKES_UNTIL_STUCK = 7;

type Wake = {
  readonly second: number;
  readonly attempts: number;
  readonly atMs: number;
  readonly delayMs: number;
  /** How often the stream was woken since it last made progress or was restarted. */
  readonly wakes: number;
};

export type WakeBackoff = {
  /** Returns the streams to wake now, the longest waiting first. */
  readonly due: (streams: readonly WaitingStream[], now: Date) => readonly WaitingStream[];
  readonly recordWake: (stream: WaitingStream, now: Date) => void;
  /** Returns whether the stream has been woken several times without an attempt or a settled event. */
  readonly isStuck: (stream: WaitingStream) => boolean;
  /** Records that the stream's sender was restarted or found to be waiting, so that it is not stuck for now. */
  readonly recordRestart: (stream: WaitingStream) => void;
};

const keyOf = ({ accountId, mode, meter }: UsageStream): string => `${accountId}/${mode}/${meter}`;

/**
 * Decides when the sender of a waiting stream is woken: immediately when the stream's oldest second has changed, because
 * the sender has made progress; otherwise with exponential backoff.
 */
export const createWakeBackoff = (wakesUntilStuck = WAKES_UNTIL_STUCK): WakeBackoff => {
  let wakes = new Map<string, Wake>();
  /** Returns the last wake of a stream that has made no progress since then. */
  const findFruitlessWake = (stream: WaitingStream): Wake | undefined => {
    const wake = wakes.get(keyOf(stream));
    return wake?.second === stream.second && wake.attempts === stream.attempts ? wake : undefined;
  };
  return {
    due: (streams, now) => {
      const earlierWakes = wakes;
      const nowMs = now.getTime();
      wakes = new Map();
      const due: { readonly stream: WaitingStream; readonly lastWakeMs: number }[] = [];
      for (const stream of streams) {
        const earlier = earlierWakes.get(keyOf(stream));
        // A wake in the future was recorded before the clock was set back.
        const wake = earlier && earlier.atMs <= nowMs ? earlier : undefined;
        if (wake) {
          wakes.set(keyOf(stream), wake);
        }
        const isDue = !wake || wake.second !== stream.second || nowMs - wake.atMs >= wake.delayMs;
        if (isDue) {
          due.push({ stream, lastWakeMs: wake?.atMs ?? 0 });
        }
      }
      return due
        .toSorted((left, right) => left.lastWakeMs - right.lastWakeMs)
        .slice(0, MAX_WAKES_PER_PASS)
        .map(({ stream }) => stream);
    },
    recordWake: (stream, now) => {
      const earlier = wakes.get(keyOf(stream));
      const delayMs =
        earlier?.second === stream.second
          ? Math.min(earlier.delayMs * 2, MAX_DELAY_MS)
          : INITIAL_DELAY_MS;
      wakes.set(keyOf(stream), {
        second: stream.second,
        attempts: stream.attempts,
        atMs: now.getTime(),
        delayMs,
        wakes: (findFruitlessWake(stream)?.wakes ?? 0) + 1,
      });
    },
    isStuck: (stream) => (findFruitlessWake(stream)?.wakes ?? 0) >= wakesUntilStuck,
    recordRestart: (stream) => {
      const wake = wakes.get(keyOf(stream));
      if (wake) {
        wakes.set(keyOf(stream), { ...wake, wakes: 0 });
      }
    },
  };
};
