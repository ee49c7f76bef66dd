import { LRUCache } from "lru-cache";

/** A small buffer keeps the whole part of Node's pool that it is in. */
const BYTES_BESIDE_CONTENT = Buffer.poolSize;

/** Returns what was rendered from data, rendered now if it was not before. */
type Render<Data, Page> = (key: string, data: Data, renderNow: () => Page) => Page;

/**
 * Caches what is rendered from data. It is valid for as long as the data are cached elsewhere.
 * @param countBytes returns the length of a page's content
 */
export const createRenderings = <Data extends object, Page extends object>(
  countBytes: (page: Page) => number,
  { maximumBytes }: { readonly maximumBytes: number },
): Render<Data, Page> => {
  // A weak reference, so that data which are no longer cached can be freed.
  const cached = new LRUCache<string, { readonly data: WeakRef<Data>; readonly page: Page }>({
    maxSize: maximumBytes,
    sizeCalculation: ({ page }) => countBytes(page) + BYTES_BESIDE_CONTENT,
  });
  return (key, data, renderNow) => {
    const rendering = cached.get(key);
    if (rendering?.data.deref() === data) {
      return rendering.page;
    }
    const page = renderNow();
    cached.set(key, { data: new WeakRef(data), page });
    return page;
  };
};
