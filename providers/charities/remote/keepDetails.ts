import type { CommonQueryMethods } from "slonik";
import { findCharityDetail, saveCharityDetail } from "../../../db/charities/charityDetails.ts";
import type { Charity } from "../../../domain/charities/charities.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { CharityProvider } from "../provider.ts";

const KEPT_MS = 24 * 60 * 60 * 1000;

/** Remembers for a day what a provider tells of single charities, for all processes. Unknown ones are asked for again. */
export const keepDetails = (
  provider: CharityProvider,
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
): CharityProvider => {
  const keep = async (
    lookup: string,
    ask: () => Promise<Charity | null>,
  ): Promise<Charity | null> => {
    const now = clock.now();
    const since = new Date(now.getTime() - KEPT_MS);
    const known = await findCharityDetail(db, provider.name, lookup, since);
    if (known) {
      return known;
    }
    const charity = await ask();
    if (charity) {
      await saveCharityDetail(db, provider.name, lookup, charity, now);
    }
    return charity;
  };
  return {
    ...provider,
    findByEin: (ein, signal) => keep(`ein:${ein}`, () => provider.findByEin(ein, signal)),
    findById: (id, signal) => keep(`id:${id}`, () => provider.findById(id, signal)),
  };
};
