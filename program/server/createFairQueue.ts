type FairQueue<Item> = {
  /** Returns false if the client has no place for it. */
  readonly add: (client: string, item: Item) => boolean;
  readonly take: () => Item | undefined;
};

/**
 * Creates a queue whose clients take turns. A client may have as many items in it as there are free places, so what cannot
 * be added is of the client that sends too much.
 */
export const createFairQueue = <Item>(maximum: number): FairQueue<Item> => {
  /** By client, in the order of their turns. */
  const waiting = new Map<string, Item[]>();
  let count = 0;
  return {
    add: (client, item) => {
      const items = waiting.get(client) ?? [];
      if (items.length >= maximum - count) {
        return false;
      }
      items.push(item);
      waiting.set(client, items);
      count += 1;
      return true;
    },
    take: () => {
      const [next] = waiting;
      if (next === undefined) {
        return undefined;
      }
      const [client, items] = next;
      count -= 1;
      waiting.delete(client);
      if (items.length > 1) {
        // The client's next turn comes after those of the others.
        waiting.set(client, items);
      }
      return items.shift();
    },
  };
};
