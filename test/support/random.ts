export type Random = {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly next: () => number;
  /** Returns an integer from 0 (inclusive) to the limit (exclusive). */
  readonly below: (limit: number) => number;
  readonly pick: <Item>(items: readonly Item[]) => Item;
};

/** Creates Lehmer's generator with the multiplier 48271. The same seed gives the same numbers, so failures can be reproduced. */
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
