/** Picks that depend on nothing but their seed, so that a simulated order tells the same story however often it is asked. */
export type SeededChoice = {
  readonly pick: <Item>(items: readonly Item[]) => Item;
  /** A whole number from `minimum` to `maximum`. */
  readonly between: (minimum: number, maximum: number) => number;
  /** A number around another one, within `spread` on either side. */
  readonly near: (value: number, spread: number) => number;
};

/** FNV-1a and a linear congruential step: enough for pictures and names, for nothing that must not be guessed. */
export const chooseBySeed = (seed: string): SeededChoice => {
  let state = 0x811c9dc5;
  for (const character of seed) {
    state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // The lower bits of such a generator repeat soon.
    return (state >>> 8) / 2 ** 24;
  };
  return {
    pick: (items) => {
      const item = items[Math.floor(next() * items.length)];
      if (item === undefined) {
        throw new RangeError("There is nothing to pick from.");
      }
      return item;
    },
    between: (minimum, maximum) => minimum + Math.floor(next() * (maximum - minimum + 1)),
    near: (value, spread) => Math.round((value + (next() * 2 - 1) * spread) * 1e5) / 1e5,
  };
};
