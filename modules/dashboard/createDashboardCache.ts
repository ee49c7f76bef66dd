import { LRUCache } from "lru-cache";
import type { PlantingContext } from "../planting/context.ts";
import type { Dashboard } from "./readDashboard.ts";
import { readDashboard } from "./readDashboard.ts";

/** All that is shown of a dashboard is read once in this time. */
const CACHED_MS = 5000;
const MAXIMUM_CACHED = 10_000;
/** As JSON. In memory, they take some times as much. */
const CACHED_BYTES = 16 * 1024 * 1024;

export type DashboardCache = {
  /** Returns the data of a dashboard if they are cached. */
  readonly find: (slug: string) => Dashboard | undefined;
  /** Reads the data of a dashboard unless they are cached; undefined if the slug is unknown. */
  readonly read: (slug: string) => Promise<Dashboard | undefined>;
};

/** Caches the data of dashboards for some seconds. Concurrent readers share one read of the database. */
export const createDashboardCache = (
  context: PlantingContext,
  { cachedMs = CACHED_MS, cachedBytes = CACHED_BYTES } = {},
): DashboardCache => {
  const cached = new LRUCache<string, Dashboard>({
    max: MAXIMUM_CACHED,
    maxSize: cachedBytes,
    sizeCalculation: (dashboard) => JSON.stringify(dashboard).length,
    ttl: cachedMs,
    fetchMethod: async (slug) => (await readDashboard(context, slug)) ?? undefined,
  });
  return {
    find: (slug) => cached.get(slug),
    read: (slug) => cached.fetch(slug),
  };
};
