import { setImmediate as afterReading, setTimeout as sleep } from "node:timers/promises";
import { runForAll } from "../../runtime/client.ts";
import { isContentError } from "../databaseErrors.ts";

type Waiting<Item, Result> = PromiseWithResolvers<Result> & { readonly item: Item };

/** Larger statements are hardly cheaper per row. */
const MAXIMUM_ITEMS = 500;

/**
 * Joins calls that are made at about the same time into one: `write` gets their items, in their order, one group after
 * the other. If the database rejects the content of a group, each item is written by itself, so that one bad item fails
 * alone. Groups are written on behalf of all clients, because they have items of several.
 * @param write returns the results in the items' order
 * @param options.collectMs how long a group collects items before it is written; by default until all requests that have
 *   arrived are read
 * @param options.writers how many groups are written at the same time
 */
export const joinCalls = <Item, Result>(
  write: (items: readonly Item[]) => Promise<readonly Result[]>,
  {
    collectMs = 0,
    writers = 1,
    maximumItems = MAXIMUM_ITEMS,
  }: {
    readonly collectMs?: number;
    readonly writers?: number;
    readonly maximumItems?: number;
  } = {},
): ((item: Item) => Promise<Result>) => {
  let waiting: Waiting<Item, Result>[] = [];
  let running = 0;

  const writeGroup = async (group: readonly Waiting<Item, Result>[]): Promise<void> => {
    try {
      const results = await write(group.map(({ item }) => item));
      for (const [index, result] of results.entries()) {
        group[index]?.resolve(result);
      }
    } catch (error) {
      if (group.length > 1 && isContentError(error)) {
        for (const each of group) {
          await writeGroup([each]);
        }
        return;
      }
      for (const { reject } of group) {
        reject(error);
      }
    }
  };

  const collect = (): Promise<unknown> => (collectMs === 0 ? afterReading() : sleep(collectMs));

  const writeAll = async (): Promise<void> => {
    running += 1;
    await collect();
    while (waiting.length > 0) {
      const group = waiting.slice(0, maximumItems);
      waiting = waiting.slice(maximumItems);
      await writeGroup(group);
      await collect();
    }
    running -= 1;
  };

  return (item) => {
    const call: Waiting<Item, Result> = { ...Promise.withResolvers<Result>(), item };
    waiting.push(call);
    if (running < writers) {
      void runForAll(writeAll);
    }
    return call.promise;
  };
};

/** One statement reads that many rows in a millisecond or two. */
const MAXIMUM_NAMES = 200;

/** Returns the value of a name; null if the name is unknown. */
export type LookUp<Value> = (name: string) => Promise<Value | null>;

/**
 * Looks names up in groups, two at the same time, so made-up names, however many, use at most two connections. Lookups of
 * one name that wait are one lookup. One that runs is not joined: its result may be older than the request.
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
    { writers: 2, maximumItems: MAXIMUM_NAMES },
  );
  return (name) => {
    const lookup = waiting.get(name) ?? read(name);
    waiting.set(name, lookup);
    return lookup;
  };
};
