import { setTimeout as sleep } from "node:timers/promises";
import { isContentError } from "./databaseErrors.ts";

type Waiting<Item, Result> = {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
};

/** Larger statements are hardly cheaper per row. */
const MAXIMUM_ITEMS = 500;

/**
 * Joins calls that are made at about the same time into one: `write` gets their items, in their order, one group after
 * the other. If the database rejects the content of a group, each item is written by itself, so that one bad item fails
 * alone.
 * @param write returns the results in the items' order
 * @param collectMs how long a group collects items before it is written
 */
export const joinCalls = <Item, Result>(
  write: (items: readonly Item[]) => Promise<readonly Result[]>,
  collectMs = 0,
): ((item: Item) => Promise<Result>) => {
  let waiting: Waiting<Item, Result>[] = [];
  let isWriting = false;

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

  const writeAll = async (): Promise<void> => {
    isWriting = true;
    while (waiting.length > 0) {
      await sleep(collectMs);
      const group = waiting.slice(0, MAXIMUM_ITEMS);
      waiting = waiting.slice(MAXIMUM_ITEMS);
      await writeGroup(group);
    }
    isWriting = false;
  };

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (!isWriting) {
        void writeAll();
      }
    });
};
