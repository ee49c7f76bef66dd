/**
 * The delay before what makes no progress is woken again; it doubles up to the maximum. Its workflow waits
 * for the other side, or was terminated and has to be started again.
 */
const INITIAL_DELAY_MS = 2000;
const MAX_DELAY_MS = 60 * 1000;

/**
 * A small Temporal server runs about 60 short workflows a second, and a wake costs about as much as one. With more
 * items than that, each is woken less often.
 */
const MAX_WAKES_PER_PASS = 40;

/** The wakes without progress, in about three minutes, after which a workflow may be stuck. */
const WAKES_UNTIL_STUCK = 7;

type Wake = {
  readonly second: number;
  readonly attempts: number;
  readonly atMs: number;
  readonly delayMs: number;
  /** How often the item was woken since it last made progress or was restarted. */
  readonly wakes: number;
};

/** What waits for a workflow: the second or the attempts change when that makes progress. */
export type Waiting = { readonly second: number; readonly attempts: number };

type WakeBackoff<Item extends Waiting> = {
  /** Returns those to wake now, the longest waiting first. */
  readonly due: (items: readonly Item[], now: Date) => readonly Item[];
  readonly recordWake: (item: Item, now: Date) => void;
  /** Returns whether it has been woken several times without progress. */
  readonly isStuck: (item: Item) => boolean;
  /** Records that the workflow was restarted or found to be waiting, so that it is not stuck for now. */
  readonly recordRestart: (item: Item) => void;
};

/**
 * Decides when the workflow of what waits is woken: immediately when the second has changed, because it has made
 * progress; otherwise with exponential backoff.
 */
export const createWakeBackoff = <Item extends Waiting>(
  keyOf: (item: Item) => string,
  wakesUntilStuck = WAKES_UNTIL_STUCK,
): WakeBackoff<Item> => {
  let wakes = new Map<string, Wake>();
  /** Returns the last wake if there was no progress since then. */
  const findFruitlessWake = (item: Item): Wake | undefined => {
    const wake = wakes.get(keyOf(item));
    return wake?.second === item.second && wake.attempts === item.attempts ? wake : undefined;
  };
  return {
    due: (items, now) => {
      const earlierWakes = wakes;
      const nowMs = now.getTime();
      wakes = new Map();
      const due: { readonly item: Item; readonly lastWakeMs: number }[] = [];
      for (const item of items) {
        const earlier = earlierWakes.get(keyOf(item));
        // A wake in the future was recorded before the clock was set back.
        const wake = earlier && earlier.atMs <= nowMs ? earlier : undefined;
        if (wake) {
          wakes.set(keyOf(item), wake);
        }
        const isDue = !wake || wake.second !== item.second || nowMs - wake.atMs >= wake.delayMs;
        if (isDue) {
          due.push({ item, lastWakeMs: wake?.atMs ?? 0 });
        }
      }
      return due
        .toSorted((left, right) => left.lastWakeMs - right.lastWakeMs)
        .slice(0, MAX_WAKES_PER_PASS)
        .map(({ item }) => item);
    },
    recordWake: (item, now) => {
      const earlier = wakes.get(keyOf(item));
      const delayMs =
        earlier?.second === item.second
          ? Math.min(earlier.delayMs * 2, MAX_DELAY_MS)
          : INITIAL_DELAY_MS;
      wakes.set(keyOf(item), {
        second: item.second,
        attempts: item.attempts,
        atMs: now.getTime(),
        delayMs,
        wakes: (findFruitlessWake(item)?.wakes ?? 0) + 1,
      });
    },
    isStuck: (item) => (findFruitlessWake(item)?.wakes ?? 0) >= wakesUntilStuck,
    recordRestart: (item) => {
      const wake = wakes.get(keyOf(item));
      if (wake) {
        wakes.set(keyOf(item), { ...wake, wakes: 0 });
      }
    },
  };
};
