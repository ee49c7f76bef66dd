type FairQueue<Item> = {
  /** Returns false if the client has no place for it. */
  readonly add: (client: string, item: Item) => boolean;
  readonly remove: (client: string, item: Item) => void;
  readonly take: () => Item | undefined;
};

/**
 * Creates a queue whose clients take turns. A client may have as many items in it as there are free places, so what cannot
 * be added is of the client that sends too much.
 */
export const createFairQueue = <Item extends object>(maximum: number): FairQueue<Item> => {
  /** By client, in the order of their turns. */
  const waiting = new Map<string, Set<Item>>();
  let count = 0;
  const remove = (client: string, item: Item): void => {
    const items = waiting.get(client);
    if (items?.delete(item) === true) {
      count -= 1;
      if (items.size === 0) {
        waiting.delete(client);
      }
    }
  };
  return {
    add: (client, item) => {
      const items = waiting.get(client) ?? new Set();
      if (items.size >= maximum - count) {
        return false;
      }
      items.add(item);
      waiting.set(client, items);
      count += 1;
      return true;
    },
    remove,
    take: () => {
      for (const [client, items] of waiting) {
        for (const item of items) {
          // The client's next turn comes after those of the others.
          waiting.delete(client);
          waiting.set(client, items);
          remove(client, item);
          return item;
        }
      }
      return undefined;
    },
  };
};
