import { secondOf } from "../runtime/durations.rules.ts";
import type { Clock } from "../runtime/clock.ts";
import { shardOf } from "./shards.rules.ts";
import type { ScanPace } from "./createScanPace.ts";

/** A page is a statement, which must end before its timeout. */
const PAGE_SIZE = 500;

type Scan<Item> = {
  readonly second: number;
  readonly items: Promise<ReadonlyMap<number, readonly Item[]>>;
  /** The shards that have had it. They need another one. */
  readonly takenBy: Set<number>;
};

/** Returns what waits in a shard, or null if that was scanned a short time ago and the next scan is not due. */
export type ScanShard<Item> = (shard: number) => Promise<readonly Item[] | null>;

/**
 * Creates the scans of a worker's shards. A scan reads what waits in all shards, whichever it is for, so the shards of a
 * worker share the scan of a second, and a later one until the next is due.
 * @param list returns a page of what is ready at a time, in an order that is the same every time
 * @param idOf returns the id by which an item belongs to a shard
 */
export const createShardScans = <Item>({
  clock,
  list,
  idOf,
  pace,
}: {
  readonly clock: Clock;
  readonly list: (page: {
    readonly after: Item | null;
    readonly now: Date;
    readonly limit: number;
  }) => Promise<readonly Item[]>;
  readonly idOf: (item: Item) => string;
  readonly pace: ScanPace;
}): ScanShard<Item> => {
  let latest: Scan<Item> | null = null;

  const listAll = async (now: Date): Promise<ReadonlyMap<number, readonly Item[]>> => {
    const items: Item[] = [];
    let page: readonly Item[];
    do {
      page = await list({ after: items.at(-1) ?? null, now, limit: PAGE_SIZE });
      items.push(...page);
    } while (page.length === PAGE_SIZE);
    return Map.groupBy(items, (item) => shardOf(idOf(item)));
  };

  const start = (now: Date): Scan<Item> => {
    const scan: Scan<Item> = {
      second: secondOf(now),
      items: pace.scan(() => listAll(now)),
      takenBy: new Set(),
    };
    // Those that wait for it get the error. Later ones scan again.
    scan.items.catch(() => {
      if (latest === scan) {
        latest = null;
      }
    });
    return scan;
  };

  return async (shard) => {
    const now = clock.now();
    const isUsed = latest === null || latest.takenBy.has(shard) || latest.second !== secondOf(now);
    if (isUsed && pace.isDue()) {
      latest = start(now);
    }
    if (latest === null || latest.takenBy.has(shard)) {
      return null;
    }
    latest.takenBy.add(shard);
    return (await latest.items).get(shard) ?? [];
  };
};
