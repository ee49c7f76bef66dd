import type { CommonQueryMethods } from "slonik";
import { findCharityDetail, saveCharityDetail } from "../../../db/charities/charityDetails.ts";
import type { Charity } from "../../../domain/charities/charities.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { CharityProvider, LocalCharities, RemoteCharityProvider } from "../provider.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Stores the details of each charity that a provider finds and serves them for a day, to all processes. A charity that
 * was not found is looked up again.
 */
export const withDetailsCache = (
  provider: RemoteCharityProvider,
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
): CharityProvider => {
  const findCached = (lookup: string): Promise<Charity | null> =>
    findCharityDetail(db, provider.name, lookup, new Date(clock.now().getTime() - DAY_MS));

  const findAndCache = async (
    lookup: string,
    find: () => Promise<Charity | null>,
  ): Promise<Charity | null> => {
    const cached = await findCached(lookup);
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
    findByEin: (ein) => findCached(`ein:${ein}`),
    findById: (id) => findCached(`id:${id}`),
    isComplete: false,
  };

  return {
    ...provider,
    findByEin: (ein, signal) => findAndCache(`ein:${ein}`, () => provider.findByEin(ein, signal)),
    findById: (id, signal) => findAndCache(`id:${id}`, () => provider.findById(id, signal)),
    local,
  };
};
