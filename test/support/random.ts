export type Random = ReturnType<typeof createRandom>;

/** Creates Lehmer's generator with the multiplier 48271. The same seed gives the same numbers, so failures can be reproduced. */
export const createRandom = (seed: number) => {
  let state = seed;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  const next = (): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  /** Returns an integer from 0 (inclusive) to the limit (exclusive). */
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
