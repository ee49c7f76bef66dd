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

/** Pages are rendered once in this time, and a revoked certificate is gone after it. */
const CACHED_MS = 5000;
const MAXIMUM_CACHED = 10_000;
const CACHED_BYTES = 48 * 1024 * 1024;

/** What one name has, by format. */
export type Formats<Format extends string> = Readonly<Record<Format, Tagged>>;

/**
 * Caches for some seconds the formats of what public pages show. Concurrent readers share one read of the database.
 * @param render returns null if the name has nothing
 */
export const createPageCache = <Format extends string>(
  render: (name: string) => Promise<Formats<Format> | null>,
): LRUCache<string, Formats<Format>> =>
  new LRUCache({
    max: MAXIMUM_CACHED,
    maxSize: CACHED_BYTES,
    sizeCalculation: (formats) =>
      Object.values<Tagged>(formats).reduce((sum, { body }) => sum + body.length, 0),
    ttl: CACHED_MS,
    fetchMethod: async (name) => (await render(name)) ?? undefined,
  });
