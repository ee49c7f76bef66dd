import { setImmediate as yieldToOthers } from "node:timers/promises";

/** They take a few milliseconds. */
const ITEMS = 500;

/** Yields the items of a long list, and lets the process do other work after every 500 of them. */
export async function* yieldingEach<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  for (const [index, item] of items.entries()) {
    if (index > 0 && index % ITEMS === 0) {
      await yieldToOthers();
    }
    yield item;
  }
}
