import type { CommonQueryMethods } from "slonik";
import { findCharityDetails, saveCharityDetail } from "../charities.sql.ts";
import type { Charity, Ein } from "../charities.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import type { CharityProvider, LocalCharities, RemoteCharityProvider } from "../provider.ts";

const lookupOfEin = (ein: Ein): string => `ein:${ein}`;
const lookupOfId = (nonprofitId: string): string => `id:${nonprofitId}`;

/**
 * Stores the details of each charity that a provider finds and serves them for a day, to all processes. A charity that
 * was not found is looked up again.
 */
export const withDetailsCache = (
  provider: RemoteCharityProvider,
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
): CharityProvider => {
  const findCached = (lookups: readonly string[]): Promise<ReadonlyMap<string, Charity>> =>
    findCharityDetails(db, provider.name, lookups, new Date(clock.now().getTime() - DAY_MS));

  const findAndCache = async (
    lookup: string,
    find: () => Promise<Charity | null>,
  ): Promise<Charity | null> => {
    const cached = (await findCached([lookup])).get(lookup);
    if (cached) {
      return cached;
    }
    const fetchedAt = clock.now();
    const charity = await find();
    if (charity) {
      await saveCharityDetail(db, provider.name, lookup, charity, fetchedAt);
    }
    return charity;
  };

  const local: LocalCharities = {
    find: async (ids) => {
      const lookups = ids.map(({ ein, nonprofitId }) =>
        nonprofitId === null ? lookupOfEin(ein) : lookupOfId(nonprofitId),
      );
      const cached = await findCached(lookups);
      return lookups.map((lookup) => cached.get(lookup) ?? null);
    },
    isComplete: false,
  };

  return {
    ...provider,
    findByEin: (ein, signal) =>
      findAndCache(lookupOfEin(ein), () => provider.findByEin(ein, signal)),
    findById: (id, signal) => findAndCache(lookupOfId(id), () => provider.findById(id, signal)),
    local,
  };
};
