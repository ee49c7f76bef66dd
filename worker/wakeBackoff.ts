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

type Wake = { readonly second: number; readonly atMs: number; readonly delayMs: number };

export type WakeBackoff = {
  /** Returns the streams to wake now, the longest waiting first. */
  readonly due: (streams: readonly WaitingStream[], now: Date) => readonly WaitingStream[];
  readonly recordWake: (stream: WaitingStream, now: Date) => void;
};

const keyOf = ({ accountId, mode, meter }: UsageStream): string => `${accountId}/${mode}/${meter}`;

/**
 * Decides when the sender of a waiting stream is woken: immediately when the stream's oldest second has changed, because
 * the sender has made progress; otherwise with exponential backoff.
 */
export const createWakeBackoff = (): WakeBackoff => {
  let wakes = new Map<string, Wake>();
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
      wakes.set(keyOf(stream), { second: stream.second, atMs: now.getTime(), delayMs });
    },
  };
};
