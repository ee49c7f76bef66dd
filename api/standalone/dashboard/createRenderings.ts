import { LRUCache } from "lru-cache";

const CACHED_BYTES = 32 * 1024 * 1024;
const MAXIMUM_CACHED = 20_000;

export type Renderings<Data, Page> = {
  /** Returns what was rendered from the same data; otherwise undefined. */
  readonly find: (key: string, data: Data) => Page | undefined;
  /** Returns the same, rendered now if it was not before. */
  readonly render: (key: string, data: Data, renderNow: () => Page) => Page;
};

/** Caches what is rendered from data. It is valid for as long as the data are cached elsewhere. */
export const createRenderings = <Data extends object, Page extends object>(
  countBytes: (page: Page) => number,
): Renderings<Data, Page> => {
  // A weak reference, so that data which are no longer cached can be freed.
  const cached = new LRUCache<string, { readonly data: WeakRef<Data>; readonly page: Page }>({
    max: MAXIMUM_CACHED,
    maxSize: CACHED_BYTES,
    sizeCalculation: ({ page }) => countBytes(page),
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
