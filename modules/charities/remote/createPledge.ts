import { z } from "zod";
import type { Charity } from "../charities.rules.ts";
import { formatEin } from "../charities.rules.ts";
import type { RemoteCharityProvider } from "../provider.ts";
import {
  countSeen,
  readHits,
  searchByEin,
  looseEin,
  looseText,
  looseUrl,
  requiredText,
} from "./readHits.ts";
import { fetchCharity, fetchJson } from "./fetchJson.ts";
import type { RemoteSettings } from "./fetchJson.ts";

/*
 * Speaks the API of Pledge, v1 (developer.pledge.to); the facts are from that documentation. It also lists foreign
 * charities, which have no EIN.
 */

const organization = z
  .object({
    id: requiredText(),
    name: requiredText(),
    ngo_id: looseEin(),
    mission: looseText(),
    website_url: looseUrl(),
    logo_url: looseUrl(),
  })
  .transform(
    ({ id, name, ngo_id: ein, mission, website_url: website, logo_url: iconUrl }): Charity => ({
      nonprofitId: id,
      name,
      ein,
      description: mission,
      website,
      iconUrl,
    }),
  );

const searchResponse = z.object({
  total_count: z.int().min(0),
  results: z.array(z.unknown()),
});

export const createPledge = ({
  apiBase,
  apiKey,
  startTimeout,
  onUnusable,
}: RemoteSettings<{ apiKey: string }>): RemoteCharityProvider => {
  const headers = { authorization: `Bearer ${apiKey}` };

  const search = async (
    term: string | null,
    page: number,
    perPage: number,
    signal: AbortSignal,
  ) => {
    const url = new URL(`${apiBase}/organizations`);
    url.search = new URLSearchParams({
      ...(term === null ? {} : { q: term }),
      page: String(page),
      per_page: String(perPage),
    }).toString();
    const found = await fetchJson(
      { provider: "pledge", call: "search", url, headers, startTimeout, schema: searchResponse },
      signal,
    );
    const listed = (found?.results ?? []).slice(0, perPage);
    return {
      total: found?.total_count ?? 0,
      results: await readHits("pledge", listed, organization, onUnusable),
      listedCount: listed.length,
    };
  };

  const findByEin: RemoteCharityProvider["findByEin"] = async (ein, signal) => {
    // The documentation does not say whether its search expects an EIN with or without the dash.
    for (const term of [ein, formatEin(ein)]) {
      const { results } = await search(term, 1, 20, signal);
      const charity = results.find((result) => result.ein === ein);
      if (charity) {
        return charity;
      }
    }
    return null;
  };

  return {
    name: "pledge",
    findByEin,
    findById: (id, signal) =>
      fetchCharity(
        {
          provider: "pledge",
          url: `${apiBase}/organizations`,
          headers,
          startTimeout,
          schema: organization,
        },
        id,
        signal,
      ),
    search: async (query, signal) => {
      const { name, ein, page, pageSize } = query;
      if (ein !== null) {
        return searchByEin(findByEin, ein, query, signal);
      }
      const { total, results, listedCount } = await search(name, page, pageSize, signal);
      const seen = countSeen(query, listedCount);
      return {
        items: results,
        // The reported total can be lower than the number of results.
        totalItems: Math.max(total, seen),
        totalIsExact: total >= seen,
      };
    },
  };
};
