import type { UsageStream } from "../domain/billing/usage.ts";
import type { WaitingStream } from "../db/billing/usageFacts.ts";

/**
 * How soon a stream that gets nowhere is woken again, doubling up to the most: its sender waits for the processor, or
 * was ended by somebody and has to be started anew.
 */
const FIRST_REPEAT_MS = 2000;
const LONGEST_REPEAT_MS = 60 * 1000;

/**
 * A small Temporal server manages some sixty short workflows a second in all; a wake costs about as much as one. With
 * more streams than that, each is woken less often and finds more to send.
 */
const WAKES_A_PASS = 40;

type Wake = { readonly second: number; readonly atMs: number; readonly repeatMs: number };

export type WakeSchedule = {
  /** Whom to wake now, those first that have waited longest for it. */
  readonly due: (streams: readonly WaitingStream[], now: Date) => readonly WaitingStream[];
  readonly woken: (stream: WaitingStream, now: Date) => void;
};

const keyOf = ({ accountId, mode, meter }: UsageStream): string => `${accountId}/${mode}/${meter}`;

/**
 * Decides how often a waiting stream's sender is woken: at once when its oldest second has changed, since then the
 * sender has done its work; ever less often while it has not, since then waking it makes little difference.
 */
export const createWakeSchedule = (): WakeSchedule => {
  let wakes = new Map<string, Wake>();
  return {
    due: (streams, now) => {
      const known = wakes;
      const nowMs = now.getTime();
      wakes = new Map();
      const due: { readonly stream: WaitingStream; readonly lastWakeMs: number }[] = [];
      for (const stream of streams) {
        const last = known.get(keyOf(stream));
        // One that lies ahead is from before the clock was set back and says nothing any more.
        const wake = last && last.atMs <= nowMs ? last : undefined;
        if (wake) {
          wakes.set(keyOf(stream), wake);
        }
        const isDue = !wake || wake.second !== stream.second || nowMs - wake.atMs >= wake.repeatMs;
        if (isDue) {
          due.push({ stream, lastWakeMs: wake?.atMs ?? 0 });
        }
      }
      return due
        .toSorted((left, right) => left.lastWakeMs - right.lastWakeMs)
        .slice(0, WAKES_A_PASS)
        .map(({ stream }) => stream);
    },
    woken: (stream, now) => {
      const earlier = wakes.get(keyOf(stream));
      const repeatMs =
        earlier?.second === stream.second
          ? Math.min(earlier.repeatMs * 2, LONGEST_REPEAT_MS)
          : FIRST_REPEAT_MS;
      wakes.set(keyOf(stream), { second: stream.second, atMs: now.getTime(), repeatMs });
    },
  };
};
