import { z } from "zod";
import type { Charity } from "../../../domain/charities/charities.ts";
import { formatEin } from "../../../domain/charities/charities.ts";
import type { CharityProvider } from "../provider.ts";
import { askJson } from "./askJson.ts";
import { isPathSafe, looseEin, looseText, looseUrl, requiredText } from "./fields.ts";
import type { RemoteSettings } from "./remoteSettings.ts";
import { searchByEin } from "./searchByEin.ts";

/*
 * Pledge's API, v1: developer.pledge.to. It knows foreign charities too; those have no EIN.
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

const searchAnswer = z.object({
  total_count: z.int().min(0),
  results: z.array(organization),
});

export const createPledge = ({
  apiBase,
  apiKey,
  timeoutMs,
}: RemoteSettings<{ apiKey: string }>): CharityProvider => {
  const headers = { authorization: `Bearer ${apiKey}` };

  const ask = async (term: string | null, page: number, perPage: number, signal: AbortSignal) => {
    const url = new URL(`${apiBase}/organizations`);
    url.search = new URLSearchParams({
      ...(term === null ? {} : { q: term }),
      page: String(page),
      per_page: String(perPage),
    }).toString();
    const found = await askJson(
      { provider: "pledge", url, headers, timeoutMs, answer: searchAnswer },
      signal,
    );
    return { total: found?.total_count ?? 0, results: (found?.results ?? []).slice(0, perPage) };
  };

  const findByEin: CharityProvider["findByEin"] = async (ein, signal) => {
    // Nothing says in which form its search knows an EIN.
    for (const term of [ein, formatEin(ein)]) {
      const { results } = await ask(term, 1, 20, signal);
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
    findById: async (id, signal) => {
      if (!isPathSafe(id)) {
        return null;
      }
      const charity = await askJson(
        {
          provider: "pledge",
          url: new URL(`${apiBase}/organizations/${id}`),
          headers,
          timeoutMs,
          answer: organization,
        },
        signal,
      );
      return charity?.nonprofitId === id ? charity : null;
    },
    search: async (query, signal) => {
      const { name, ein, page, pageSize } = query;
      if (ein !== null) {
        return searchByEin(findByEin, ein, query, signal);
      }
      const { total, results } = await ask(name, page, pageSize, signal);
      const seen = results.length === 0 ? 0 : (page - 1) * pageSize + results.length;
      return {
        items: results,
        // Never fewer than it has shown itself.
        totalItems: Math.max(total, seen),
        totalIsExact: total >= seen,
      };
    },
  };
};
