import { mustExist } from "../../runtime/errors.rules.ts";

/** Choices that depend on their seed alone, so that a simulated order is the same at every poll. */
export type SeededChoice = {
  readonly pick: <Item>(items: readonly Item[]) => Item;
  /** Returns an integer from `minimum` to `maximum`. */
  readonly between: (minimum: number, maximum: number) => number;
  /** Returns a number within `spread` of a value. */
  readonly near: (value: number, spread: number) => number;
};

/** Uses FNV-1a and a linear congruential generator: good enough for pictures and names, not for secrets. */
export const chooseBySeed = (seed: string): SeededChoice => {
  let state = 0x811c9dc5;
  for (const character of seed) {
    state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  }
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // The lower bits of such a generator repeat quickly.
    return (state >>> 8) / 2 ** 24;
  };
  return {
    pick: (items) =>
      mustExist(items[Math.floor(next() * items.length)], "There is nothing to pick from."),
    between: (minimum, maximum) => minimum + Math.floor(next() * (maximum - minimum + 1)),
    near: (value, spread) => Math.round((value + (next() * 2 - 1) * spread) * 1e5) / 1e5,
  };
};
