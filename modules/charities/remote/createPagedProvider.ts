import type { z } from "zod";
import type { Charity, Ein } from "../charities.rules.ts";
import type { CharityPage, CharityQuery, RemoteCharityProvider } from "../provider.ts";
import { fetchJson, isPathSafe } from "./fetchJson.ts";
import type { RemoteSettings } from "./fetchJson.ts";
import { readHits, searchByEin } from "./readHits.ts";

/** The API of a provider whose searches have pages. */
type PagedApi = {
  readonly provider: RemoteCharityProvider["name"];
  /** The URL of a search; that of a charity has its id as a further segment. */
  readonly url: string;
  readonly searchHeaders?: Readonly<Record<string, string>>;
  readonly detailsHeaders: Readonly<Record<string, string>>;
  readonly charity: z.ZodType<Charity>;
  /** The total is null if the provider reports none. */
  readonly searchResponse: z.ZodType<{
    readonly hits: readonly unknown[];
    readonly total: number | null;
  }>;
  /** @param term null for a search without any */
  readonly parametersOf: (
    term: string | null,
    page: string,
    limit: string,
  ) => Readonly<Record<string, string>>;
  /** Returns the terms that may find an EIN. */
  readonly termsOf: (ein: Ein) => readonly string[];
};

/** Returns how many charities a search has, as far as a page and what the provider reports tell. */
const totalOf = (
  { page, pageSize }: CharityQuery,
  listedCount: number,
  total: number | null,
): Omit<CharityPage, "items"> => {
  // An empty page may be beyond the last.
  const seen = listedCount === 0 ? 0 : (page - 1) * pageSize + listedCount;
  return total === null
    ? {
        // A full page may not be the last, so a client that pages by the total must be able to request another.
        totalItems: listedCount === pageSize ? seen + 1 : seen,
        totalIsExact: listedCount < pageSize && (listedCount > 0 || page === 1),
      }
    : // The reported total can be lower than the number of results.
      { totalItems: Math.max(total, seen), totalIsExact: total >= seen };
};

export const createPagedProvider = (
  {
    provider,
    url,
    searchHeaders = {},
    detailsHeaders,
    charity,
    searchResponse,
    parametersOf,
    termsOf,
  }: PagedApi,
  { startTimeout, onUnusable }: Pick<RemoteSettings<object>, "startTimeout" | "onUnusable">,
): RemoteCharityProvider => {
  const search = async (term: string | null, page: number, limit: number, signal: AbortSignal) => {
    const searchUrl = new URL(url);
    const parameters = parametersOf(term, String(page), String(limit));
    searchUrl.search = new URLSearchParams(parameters).toString();
    const found = await fetchJson(
      {
        provider,
        call: "search",
        url: searchUrl,
        headers: searchHeaders,
        startTimeout,
        schema: searchResponse,
      },
      signal,
    );
    const listed = (found?.hits ?? []).slice(0, limit);
    return {
      hits: await readHits(provider, listed, charity, onUnusable),
      listedCount: listed.length,
      total: found?.total ?? null,
    };
  };

  const findByEin: RemoteCharityProvider["findByEin"] = async (ein, signal) => {
    for (const term of termsOf(ein)) {
      const { hits } = await search(term, 1, 20, signal);
      const found = hits.find((hit) => hit.ein === ein);
      if (found) {
        return found;
      }
    }
    return null;
  };

  return {
    name: provider,
    findByEin,
    findById: async (id, signal) => {
      if (!isPathSafe(id)) {
        return null;
      }
      const found = await fetchJson(
        {
          provider,
          call: "details",
          url: new URL(`${url}/${id}`),
          headers: detailsHeaders,
          startTimeout,
          schema: charity,
        },
        signal,
      );
      // It may respond with another one.
      return found?.nonprofitId === id ? found : null;
    },
    search: async (query, signal) => {
      const { name, ein, page, pageSize } = query;
      if (ein !== null) {
        return searchByEin(findByEin, ein, query, signal);
      }
      const { hits, listedCount, total } = await search(name, page, pageSize, signal);
      return { items: hits, ...totalOf(query, listedCount, total) };
    },
  };
};
