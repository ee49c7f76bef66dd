import { LRUCache } from "lru-cache";
import { shardOf, SHARDS } from "../domain/shards.ts";

/** Items of all shards in one page; a shard rarely has room for more of its own. */
const PAGE_SIZE = SHARDS * 500;

/** A shard scans once a second. What a page lacks, its next scan finds. */
const SHARED_MS = 1000;

type Page<Item> = {
  readonly items: Promise<readonly Item[]>;
  /** The shards that have had it. Their next scan must look again. */
  readonly takenBy: Set<number>;
};

/** A part of a shard's items, in the order of a scan. */
type ScannedPart<Item> = {
  readonly items: readonly Item[];
  /** Where the next part begins; null if this is the last one. */
  readonly next: Item | null;
};

/**
 * Returns a part of what waits in a shard.
 * @param after where the part begins; null for the first one
 * @param second the same in all parts of a scan
 */
export type ScanShard<Item> = (scan: {
  readonly shard: number;
  readonly after: Item | null;
  readonly second: number;
  readonly limit: number;
}) => Promise<ScannedPart<Item>>;

/**
 * Creates the scans of a worker's shards. A query steps through what waits in all shards, whichever it is for, so the
 * shards of a worker share each page.
 * @param list returns a page, in an order that is the same every time
 * @param keyOf returns a unique key of an item
 * @param idOf returns the id by which an item belongs to a shard
 */
export const createShardScans = <Item>({
  list,
  keyOf,
  idOf,
}: {
  readonly list: (page: {
    readonly after: Item | null;
    readonly second: number;
    readonly limit: number;
  }) => Promise<readonly Item[]>;
  readonly keyOf: (item: Item) => string;
  readonly idOf: (item: Item) => string;
}): ScanShard<Item> => {
  const pages = new LRUCache<string, Page<Item>>({ max: 2 * SHARDS, ttl: SHARED_MS });

  /** What a shard has no room for yet, by shard. A busy worker would otherwise read most of a page again at each step. */
  const rests = new Map<number, ScannedPart<Item> & { readonly after: Item }>();

  const takePage = (
    shard: number,
    after: Item | null,
    second: number,
  ): Promise<readonly Item[]> => {
    const key = `${second}/${after === null ? "" : keyOf(after)}`;
    let page = pages.get(key);
    if (page === undefined || page.takenBy.has(shard)) {
      const items = list({ after, second, limit: PAGE_SIZE });
      page = { items, takenBy: new Set() };
      pages.set(key, page);
      // Those that wait for it get the error. Later ones look again.
      items.catch(() => pages.delete(key));
    }
    page.takenBy.add(shard);
    return page.items;
  };

  const readPart = async (
    shard: number,
    after: Item | null,
    second: number,
  ): Promise<ScannedPart<Item>> => {
    const page = await takePage(shard, after, second);
    return {
      items: page.filter((item) => shardOf(idOf(item)) === shard),
      next: page.length < PAGE_SIZE ? null : (page.at(-1) ?? null),
    };
  };

  return async ({ shard, after, second, limit }) => {
    const rest = rests.get(shard);
    const part =
      rest !== undefined && rest.after === after ? rest : await readPart(shard, after, second);
    const items = part.items.slice(0, limit);
    const last = items.at(-1);
    if (last === undefined || part.items.length <= limit) {
      rests.delete(shard);
      return part;
    }
    rests.set(shard, { after: last, items: part.items.slice(limit), next: part.next });
    return { items, next: last };
  };
};
