import { LRUCache } from "lru-cache";

/** A small buffer keeps the whole part of Node's pool that it is in. */
const BYTES_BESIDE_CONTENT = Buffer.poolSize;

export type Renderings<Data, Page> = {
  /** Returns what was rendered from the same data; otherwise undefined. */
  readonly find: (key: string, data: Data) => Page | undefined;
  /** Returns the same, rendered now if it was not before. */
  readonly render: (key: string, data: Data, renderNow: () => Page) => Page;
};

/**
 * Caches what is rendered from data. It is valid for as long as the data are cached elsewhere.
 * @param countBytes returns the length of a page's content
 */
export const createRenderings = <Data extends object, Page extends object>(
  countBytes: (page: Page) => number,
  { maximumBytes }: { readonly maximumBytes: number },
): Renderings<Data, Page> => {
  // A weak reference, so that data which are no longer cached can be freed.
  const cached = new LRUCache<string, { readonly data: WeakRef<Data>; readonly page: Page }>({
    maxSize: maximumBytes,
    sizeCalculation: ({ page }) => countBytes(page) + BYTES_BESIDE_CONTENT,
  });
  const find = (key: string, data: Data): Page | undefined => {
    const rendering = cached.get(key);
    return rendering?.data.deref() === data ? rendering.page : undefined;
  };
  return {
    find,
    render: (key, data, renderNow) => {
      const found = find(key, data);
      if (found) {
        return found;
      }
      const page = renderNow();
      cached.set(key, { data: new WeakRef(data), page });
      return page;
    },
  };
};
