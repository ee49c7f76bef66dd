import { LRUCache } from "lru-cache";
import type { RequestContext } from "../http/requestContext.ts";
import { tag } from "../http/taggedResponses.ts";
import type { Tagged } from "../http/taggedResponses.ts";
import { contentPolicy } from "../pages/renderDocument.ts";

/** For pictures that depend on their URL alone. */
export const IMMUTABLE = "public, max-age=31536000, immutable";
export const ONE_DAY = "public, max-age=86400";
export const CACHE_CONTROL = "public, max-age=10";

/** For what other sites may embed. */
export const OPEN_TO_ALL = {
  "Access-Control-Allow-Origin": "*",
  "Cross-Origin-Resource-Policy": "cross-origin",
};

/** Lets other sites also follow a page's redirects and read its errors. */
export const openToAll =
  (run: (ctx: RequestContext) => Promise<void>) =>
  (ctx: RequestContext): Promise<void> => {
    ctx.set(OPEN_TO_ALL);
    return run(ctx);
  };

export const pictureOf = (type: string, body: string | Buffer): Tagged =>
  tag({
    type,
    body,
    headers: { ...OPEN_TO_ALL, "Content-Security-Policy": contentPolicy("sandbox") },
  });

/** What pages show is read once in this time, and a revoked certificate is gone after it. */
const CACHED_MS = 5000;
const MAXIMUM_CACHED = 10_000;
const CACHED_BYTES = 48 * 1024 * 1024;
/** A small buffer keeps the whole part of Node's pool that it is in. */
const BYTES_BESIDE_CONTENT = Buffer.poolSize;

type Entry<Data> = {
  readonly data: Data;
  /** By format. */
  readonly rendered: Readonly<Record<string, Tagged>>;
  readonly bytes: number;
};

export type PageCache<Data> = {
  /** Returns what a name has if it is cached. */
  readonly find: (name: string) => Data | undefined;
  /** Reads what a name has unless it is cached. Concurrent readers share one read. */
  readonly read: (name: string) => Promise<Data | undefined>;
  /** Renders data of a name, or returns what was rendered of the same data before. */
  readonly render: (name: string, format: string, data: Data, renderNow: () => Tagged) => Tagged;
};

/**
 * Caches for some seconds what public pages show, and what was rendered from it.
 * @param read returns null if the name has nothing
 */
export const createPageCache = <Data extends object>(
  read: (name: string) => Promise<Data | null>,
  { cachedMs = CACHED_MS, cachedBytes = CACHED_BYTES } = {},
): PageCache<Data> => {
  const cached = new LRUCache<string, Entry<Data>>({
    max: MAXIMUM_CACHED,
    maxSize: cachedBytes,
    sizeCalculation: ({ bytes }) => bytes,
    ttl: cachedMs,
    fetchMethod: async (name) => {
      const data = await read(name);
      return data ? { data, rendered: {}, bytes: JSON.stringify(data).length } : undefined;
    },
  });
  return {
    find: (name) => cached.get(name)?.data,
    read: async (name) => (await cached.fetch(name))?.data,
    render: (name, format, data, renderNow) => {
      const entry = cached.peek(name);
      const isCurrent = entry?.data === data;
      const known = isCurrent ? entry.rendered[format] : undefined;
      if (known) {
        return known;
      }
      const page = renderNow();
      if (isCurrent) {
        const bytes = entry.bytes + page.body.length + BYTES_BESIDE_CONTENT;
        const rendered = { ...entry.rendered, [format]: page };
        const ttl = Math.max(1, Math.floor(cached.getRemainingTTL(name)));
        cached.set(name, { data, rendered, bytes }, { ttl });
      }
      return page;
    },
  };
};
