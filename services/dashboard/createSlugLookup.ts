import { LRUCache } from "lru-cache";
import type { CommonQueryMethods } from "slonik";
import { findDashboardSlugs } from "../../db/dashboard/dashboards.ts";

/** Returns the slug of the dashboard that a slug belongs to, which differs if it is an alias; null if it is unknown. */
export type LookUpSlug = (slug: string) => Promise<string | null>;

/** Slugs are short, so they take a few megabytes at most. */
const MAXIMUM_REMEMBERED = 10_000;
/** An imported alias works after this time, even if it was requested before. */
const REMEMBERED_MS = 5000;

type Lookup = PromiseWithResolvers<string | null>;

/**
 * Creates a lookup that runs one query at a time, for all slugs that were requested meanwhile, and remembers unknown slugs
 * for some seconds. So a flood of made-up slugs costs few queries, and none of them gets into the cache of pages.
 */
export const createSlugLookup = (
  db: CommonQueryMethods,
  { rememberedMs = REMEMBERED_MS } = {},
): LookUpSlug => {
  const unknown = new LRUCache<string, true>({ max: MAXIMUM_REMEMBERED, ttl: rememberedMs });
  let running = new Map<string, Lookup>();
  let waiting = new Map<string, Lookup>();

  const runBatch = async (): Promise<void> => {
    const found = await findDashboardSlugs(db, [...running.keys()]);
    for (const [slug, { resolve }] of running) {
      const dashboardSlug = found.get(slug) ?? null;
      if (dashboardSlug === null) {
        unknown.set(slug, true);
      }
      resolve(dashboardSlug);
    }
  };

  const run = async (): Promise<void> => {
    while (running.size > 0) {
      try {
        await runBatch();
      } catch (error) {
        for (const { reject } of running.values()) {
          reject(error);
        }
      }
      running = waiting;
      waiting = new Map();
    }
  };

  return (slug) => {
    if (unknown.has(slug)) {
      return Promise.resolve(null);
    }
    const known = running.get(slug) ?? waiting.get(slug);
    if (known) {
      return known.promise;
    }
    const lookup: Lookup = Promise.withResolvers();
    if (running.size === 0) {
      running.set(slug, lookup);
      void run();
    } else {
      waiting.set(slug, lookup);
    }
    return lookup.promise;
  };
};
