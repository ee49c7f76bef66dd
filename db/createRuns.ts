import type { Context } from "../runtime/context.ts";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";
import { pause } from "../runtime/waiting.ts";
import { recordPass } from "./perpetualWork.sql.ts";

/** Long enough to cost nothing, and short enough that workers that are started later soon get their share. */
const RUN_MS = 60_000;

const SECOND_MS = 1000;

/** Each commit waits for the disk. */
const RECORD_INTERVAL_MS = 4000;

/** Longer than it takes until a run continues another one. After that, loops begin nothing more. */
const CONTINUED_WITHIN_MS = 3000;

type LoopControl = {
  readonly mayBegin: () => boolean;
  /** Begins another loop of the same item, unless it has the most already. */
  readonly startAnother: () => void;
  /** Aborts calls in flight. */
  readonly signal: AbortSignal;
};

/** Work that scans look for, and that a loop does for each item that is found. */
export type Work<Item> = {
  /** @returns null if it is too early for the next scan */
  readonly scan: (signal: AbortSignal) => Promise<readonly Item[] | null>;
  readonly keyOf: (item: Item) => string;
  /** Does the work of an item in steps, as long as it has some. */
  readonly loop: (item: Item, control: LoopControl) => Promise<void>;
  /** How many loops items with the same key have at most; one if it is absent. */
  readonly maximumLoops?: number;
  /** Called when no more steps begin. */
  readonly onEnd?: () => void;
};

/** @param signal aborts calls in flight, for good */
export const createSender = <Item>(
  { scan, keyOf, loop, maximumLoops = 1, onEnd }: Work<Item>,
  signal: AbortSignal,
) => {
  const running = new Map<string, Set<Promise<void>>>();
  const failures: unknown[] = [];
  let isActive = false;
  const mayBegin = (): boolean => isActive && !signal.aborted;

  const start = (item: Item): void => {
    const key = keyOf(item);
    const loops = running.get(key) ?? new Set();
    if (loops.size >= maximumLoops) {
      return;
    }
    const ended = loop(item, { mayBegin, startAnother: () => start(item), signal })
      .catch((error: unknown) => void failures.push(error))
      .finally(() => {
        loops.delete(ended);
        if (loops.size === 0) {
          running.delete(key);
        }
      });
    running.set(key, loops.add(ended));
  };

  return {
    /** Scans, and starts a loop for each item. Loops may begin steps until `pause`. */
    scan: async () => {
      isActive = true;
      (await scan(signal))?.forEach(start);
    },
    /** @throws the error of a loop that has failed since the last call */
    check: () => {
      for (const error of failures.splice(0)) {
        throw error;
      }
    },
    /** Lets loops begin nothing more, unless `scan` is called again. */
    pause: () => {
      isActive = false;
      onEnd?.();
    },
    /** Resolves when all loops have ended. */
    settled: async () => {
      while (running.size > 0) {
        await Promise.all(running.values().flatMap((loops) => loops));
      }
    },
  };
};

export type Sender = ReturnType<typeof createSender>;

type RunSignals = {
  /** No more work begins once it is aborted; calls in flight are finished. */
  readonly stop: AbortSignal;
  /** Aborts calls in flight. */
  readonly signal: AbortSignal;
};

export type RunOptions<Item> = {
  readonly kind: PerpetualKind;
  readonly work: Work<Item>;
  /** How long a run lasts instead of a minute. */
  readonly runMs?: number | undefined;
};

/**
 * Creates the runs of a worker. A sender outlasts its run: the next one continues with its calls in flight, so a slow call
 * holds up nothing at the end of a minute. After a run that was canceled, the next one has a new sender.
 */
export const createRuns = <Item>(
  { db, clock }: Context,
  { kind, work, runMs = RUN_MS }: RunOptions<Item>,
) => {
  let recordedAtMs = -Infinity;
  let pausing: NodeJS.Timeout | undefined;
  const activate = () => {
    const calls = new AbortController();
    return { calls, sender: createSender(work, calls.signal) };
  };
  let active: ReturnType<typeof activate> | null = null;

  return {
    /** Does the work for a minute. It looks for work every second, unless that takes longer. */
    run: async ({ stop, signal }: RunSignals): Promise<void> => {
      clearTimeout(pausing);
      const current = (active ??= activate());
      const { calls, sender } = current;
      const abort = (): void => calls.abort();
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) {
        abort();
      }
      const ending = AbortSignal.any([stop, calls.signal]);
      const endsAtMs = performance.now() + runMs;
      try {
        while (!ending.aborted && performance.now() < endsAtMs) {
          await sender.scan();
          sender.check();
          if (performance.now() - recordedAtMs >= RECORD_INTERVAL_MS) {
            await recordPass(db, kind);
            recordedAtMs = performance.now();
          }
          // Until just after the next second begins, because timers may fire a millisecond early.
          const restMs = SECOND_MS - (clock.now().getTime() % SECOND_MS) + 1;
          const pauseMs = Math.min(restMs, endsAtMs - performance.now());
          // Node warns of a negative duration.
          await pause(Math.max(0, pauseMs), ending);
        }
      } finally {
        if (ending.aborted) {
          sender.pause();
          await sender.settled();
        } else {
          pausing = setTimeout(sender.pause, CONTINUED_WITHIN_MS).unref();
        }
        if (calls.signal.aborted && active === current) {
          active = null;
        }
        signal.removeEventListener("abort", abort);
      }
    },
    /** Aborts the calls in flight that no run has continued, and waits until that is recorded. */
    end: async (): Promise<void> => {
      clearTimeout(pausing);
      active?.sender.pause();
      active?.calls.abort();
      await active?.sender.settled();
    },
  };
};

export type Runs = ReturnType<typeof createRuns>;
