import { mustExist } from "../../runtime/errors.rules.ts";

/**
 * Returns choices that depend on a seed alone, so that a simulated order is the same at every poll. Uses FNV-1a and a linear
 * congruential generator: good enough for pictures and names, not for secrets.
 */
export const chooseBySeed = (seed: string) => {
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
    pick: <Item>(items: readonly Item[]): Item =>
      mustExist(items[Math.floor(next() * items.length)], "There is nothing to pick from."),
    between: (minimum: number, maximum: number): number =>
      minimum + Math.floor(next() * (maximum - minimum + 1)),
    near: (value: number, spread: number): number =>
      Math.round((value + (next() * 2 - 1) * spread) * 1e5) / 1e5,
  };
};
