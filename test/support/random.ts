/** A sequence of numbers that looks like chance. */
export type Random = {
  /** From 0 on, below 1. */
  readonly next: () => number;
  /** A whole number from 0 on, below the limit. */
  readonly below: (limit: number) => number;
  readonly pick: <Item>(items: readonly Item[]) => Item;
};

/** Lehmer's generator with the multiplier 48271: the same numbers for the same seed, so that a failure can be had again. */
export const createRandom = (seed: number): Random => {
  let state = seed;
  const next = (): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  const below = (limit: number): number => Math.floor(next() * limit);
  const pick = <Item>(items: readonly Item[]): Item => {
    const item = items[below(items.length)];
    if (item === undefined) {
      throw new RangeError("Nothing to pick from.");
    }
    return item;
  };
  return { next, below, pick };
};
