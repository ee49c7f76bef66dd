import { GroupCommit } from "./groupCommit.ts";

/** Larger statements are hardly cheaper per row. */
const MAXIMUM_ITEMS = 500;

/**
 * Joins calls that are made at about the same time into one: `write` gets their items, in their order, one group after
 * the other. If the database rejects the content of a group, its halves are written, so that a bad item fails alone. Groups
 * are written on behalf of all clients, because they have items of several.
 * @param write returns the results in the items' order
 */
export const joinCalls = <Item, Result>(
  write: (items: readonly Item[]) => Promise<readonly Result[]>,
  {
    collectMs,
    maximumItems = MAXIMUM_ITEMS,
  }: { readonly collectMs?: () => number; readonly maximumItems?: number } = {},
): ((item: Item) => Promise<Result>) =>
  new GroupCommit<Item, Result>({
    write,
    accountOf: () => "",
    maximumBatch: maximumItems,
    collectMs,
    spanName: "joined calls",
  }).submit;

/** One statement reads that many rows in a millisecond or two. */
const MAXIMUM_NAMES = 200;

export type LookUp<Value> = (name: string) => Promise<Value | null>;

/**
 * Looks names up in groups, so made-up names, however many, use one connection. Lookups of one name that wait are one
 * lookup. One that runs is not joined: its result may be older than the request.
 * @param find returns the values of the names that exist
 */
export const createLookups = <Value>(
  find: (names: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
): LookUp<Value> => {
  const waiting = new Map<string, Promise<Value | null>>();
  const read = joinCalls(
    async (names: readonly string[]) => {
      for (const name of names) {
        waiting.delete(name);
      }
      const values = await find(names);
      return names.map((name) => values.get(name) ?? null);
    },
    { maximumItems: MAXIMUM_NAMES },
  );
  return (name) => {
    const lookup = waiting.get(name) ?? read(name);
    waiting.set(name, lookup);
    return lookup;
  };
};
