import { LRUCache } from "lru-cache";
import type { CommonQueryMethods } from "slonik";
import { listReadyStreams } from "../../../db/billing/sending/usageShards.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { shardOf, SHARDS, streamKey } from "../../../domain/billing/usage.ts";

/** Streams of all shards in one page; a shard rarely has room for more of its own. */
const PAGE_SIZE = SHARDS * 500;

/** Each shard scans once a second, at another time than the others. What a page lacks by then, the next scan finds. */
const SHARED_MS = 1000;

type Page = {
  readonly streams: Promise<readonly UsageStream[]>;
  /** The shards that have had it. Their next scan must look again. */
  readonly takenBy: Set<number>;
};

/** A part of a shard's streams with usage that is ready, in the order of a scan. */
type ScannedStreams = {
  readonly streams: readonly UsageStream[];
  /** Where the next part begins; null if this is the last one. */
  readonly next: UsageStream | null;
};

/** @param after where the part begins; null for the first one */
export type ScanStreams = (scan: {
  readonly shard: number;
  readonly after: UsageStream | null;
  readonly lastSecond: number;
  readonly limit: number;
}) => Promise<ScannedStreams>;

/**
 * Creates the scans of a worker's shards. A query steps through the waiting streams of all shards, whichever it is for, so
 * the shards of a worker share each page.
 */
export const createStreamScans = (db: CommonQueryMethods): ScanStreams => {
  const pages = new LRUCache<string, Page>({ max: 2 * SHARDS, ttl: SHARED_MS });

  /** What a shard has no room for yet, by shard. A busy worker would otherwise read most of a page again at each step. */
  const rests = new Map<number, ScannedStreams & { readonly after: UsageStream }>();

  const takePage = (
    shard: number,
    after: UsageStream | null,
    lastSecond: number,
  ): Promise<readonly UsageStream[]> => {
    const key = `${lastSecond}/${after === null ? "" : streamKey(after)}`;
    let page = pages.get(key);
    if (page === undefined || page.takenBy.has(shard)) {
      const streams = listReadyStreams(db, { after, lastSecond, limit: PAGE_SIZE });
      page = { streams, takenBy: new Set() };
      pages.set(key, page);
      // The shard that has it throws the error; the others look again.
      streams.catch(() => pages.delete(key));
    }
    page.takenBy.add(shard);
    return page.streams;
  };

  const readPart = async (
    shard: number,
    after: UsageStream | null,
    lastSecond: number,
  ): Promise<ScannedStreams> => {
    const page = await takePage(shard, after, lastSecond);
    return {
      streams: page.filter(({ accountId }) => shardOf(accountId) === shard),
      next: page.length < PAGE_SIZE ? null : (page.at(-1) ?? null),
    };
  };

  return async ({ shard, after, lastSecond, limit }) => {
    const rest = rests.get(shard);
    const part =
      rest !== undefined && rest.after === after ? rest : await readPart(shard, after, lastSecond);
    const streams = part.streams.slice(0, limit);
    const last = streams.at(-1);
    if (last === undefined || part.streams.length <= limit) {
      rests.delete(shard);
      return part;
    }
    rests.set(shard, { after: last, streams: part.streams.slice(limit), next: part.next });
    return { streams, next: last };
  };
};
