import { setTimeout as sleep } from "node:timers/promises";
import type { LRUCache } from "lru-cache";
import type { CommonQueryMethods } from "slonik";
import type { z } from "zod";
import type { CharityProviderName } from "../../accounts/accounts.rules.ts";
import { splitReadable } from "../../../runtime/splitReadable.ts";
import { nameWords } from "../charities.rules.ts";
import type { Charity, CharityIds, Ein } from "../charities.rules.ts";
import { CharityProviderError, NO_MATCHES } from "../provider.ts";
import type { CharityProvider, CharityQuery } from "../provider.ts";
import { fetchJson, TemporaryError } from "./fetchJson.ts";
import type { JsonRequest } from "./fetchJson.ts";

export type RemoteProviderName = Exclude<CharityProviderName, "catalogue">;

/** Starts the time limit of one attempt, from connecting to the last byte. */
export type StartTimeout = () => AbortSignal;

export type CallName = "details" | "search";

/** What the adapter has to know of a provider's API. */
export type RemoteApi = {
  readonly name: RemoteProviderName;
  /** The request for one charity by its id, or by its EIN if there is no `einTermsOf`. */
  readonly detailsRequest: (id: string) => JsonRequest;
  /** Null for a charity that cannot receive donations. */
  readonly details: z.ZodType<Charity | null>;
  /** The request for a page of hits; null if the API has no search without a term. */
  readonly searchRequest: (term: string | null, page: number, limit: number) => JsonRequest | null;
  /** The total is null if the API reports none. */
  readonly searchResponse: z.ZodType<{
    readonly hits: readonly unknown[];
    readonly total: number | null;
  }>;
  readonly hit: z.ZodType<Charity>;
  /** How many hits a search without pages returns at most; null if it has pages. */
  readonly maximumHits: number | null;
  /** Returns the search terms that may find an EIN. */
  readonly einTermsOf?: (ein: Ein) => readonly string[];
  /** Counts a call against the API's rate limit, if it has one; throws if the limit is reached. */
  readonly takePermit?: (call: CallName) => Promise<void>;
};

export type OpenRemoteApi = (options: {
  readonly url: string;
  readonly keys: readonly string[];
  /** Counts the account's calls by all processes. */
  readonly db: CommonQueryMethods;
  readonly accountId: string;
}) => RemoteApi;

/** Charities that were found, by `lookupOf`. */
export type FoundCharities = LRUCache<string, Charity>;

/** Whether an id can be a path segment without changing the path. */
const isPathSafe = (id: string): boolean => /^[\w~-][\w.~-]{0,199}$/u.test(id);

const matchesName = (charity: Charity, name: string): boolean => {
  const { phrase } = nameWords(charity.name);
  return nameWords(name).words.every((word) => phrase.includes(word));
};

/** Returns how many charities a search with pages has, as far as a page and what the provider reports tell. */
const totalOf = ({ page, pageSize }: CharityQuery, listedCount: number, total: number | null) => {
  // An empty page may be beyond the last.
  const seen = listedCount === 0 ? 0 : (page - 1) * pageSize + listedCount;
  // A full page may not be the last, so a client that pages by the total must be able to request another. The reported total
  // can be lower than the number of results.
  return Math.max(total ?? (listedCount === pageSize ? seen + 1 : seen), seen);
};

const lookupOf = (provider: RemoteProviderName, { ein, nonprofitId }: CharityIds): string =>
  JSON.stringify([provider, nonprofitId === null ? { ein } : { nonprofitId }]);

const ATTEMPTS = 2;
const RETRY_DELAY_MS = 200;

const createCalls = (api: RemoteApi, startTimeout: StartTimeout) => {
  /** Retries a temporary failure once. */
  const call = async <Schema extends z.ZodType>(
    name: CallName,
    request: JsonRequest,
    schema: Schema,
    signal: AbortSignal,
  ): Promise<z.output<Schema> | null> => {
    const title = `${api.name}: ${name}`;
    for (let attempt = 1; ; attempt += 1) {
      await api.takePermit?.(name);
      try {
        return await fetchJson(title, request, schema, AbortSignal.any([signal, startTimeout()]));
      } catch (error) {
        if (!(error instanceof TemporaryError) || attempt === ATTEMPTS || signal.aborted) {
          throw error;
        }
        await sleep(RETRY_DELAY_MS);
      }
    }
  };
  return {
    readDetails: (id: string, signal: AbortSignal): Promise<Charity | null> =>
      call("details", api.detailsRequest(id), api.details, signal),
    readHits: async (request: JsonRequest, limit: number, signal: AbortSignal) => {
      const found = await call("search", request, api.searchResponse, signal);
      const listed = (found?.hits ?? []).slice(0, limit);
      const { readable } = await splitReadable(listed, api.hit).catch((cause: unknown) => {
        throw new CharityProviderError(`${api.name}: search: unexpected response format`, {
          cause,
        });
      });
      return { hits: readable, listedCount: listed.length, total: found?.total ?? null };
    },
  };
};

/** How many hits of a search for an EIN are looked at. */
const EIN_HITS = 20;

/** Creates a provider outside. A charity that it has found is remembered; one that was not found is looked up again. */
export const createRemoteProvider = (
  api: RemoteApi,
  found: FoundCharities,
  startTimeout: StartTimeout,
): CharityProvider => {
  const { readDetails, readHits } = createCalls(api, startTimeout);

  const findByEin = async (ein: Ein, signal: AbortSignal): Promise<Charity | null> => {
    if (!api.einTermsOf) {
      const charity = await readDetails(ein, signal);
      return charity?.ein === ein ? charity : null;
    }
    for (const term of api.einTermsOf(ein)) {
      const request = api.searchRequest(term, 1, EIN_HITS);
      const { hits } = request ? await readHits(request, EIN_HITS, signal) : { hits: [] };
      const charity = hits.find((hit) => hit.ein === ein);
      if (charity) {
        return charity;
      }
    }
    return null;
  };

  const findById = async (id: string, signal: AbortSignal): Promise<Charity | null> => {
    const charity = isPathSafe(id) ? await readDetails(id, signal) : null;
    // It may respond with another one, except that Every.org finds a charity by former slugs, too.
    return !api.einTermsOf || charity?.nonprofitId === id ? charity : null;
  };

  const remember = (ids: CharityIds, charity: Charity): void => {
    found.set(lookupOf(api.name, ids), charity);
  };

  const find: CharityProvider["find"] = async (ids, signal) => {
    const known = found.get(lookupOf(api.name, ids));
    if (known) {
      return known;
    }
    const charity = await (ids.nonprofitId === null
      ? findByEin(ids.ein, signal)
      : findById(ids.nonprofitId, signal));
    if (charity) {
      remember(ids, charity);
    }
    return charity;
  };

  const search: CharityProvider["search"] = async (query, signal) => {
    const { name, ein, page, pageSize } = query;
    if (ein !== null) {
      const charity = await find({ ein, nonprofitId: null }, signal);
      const items = charity && (name === null || matchesName(charity, name)) ? [charity] : [];
      return { items: page === 1 ? items : [], totalItems: items.length };
    }
    const request = api.searchRequest(name, page, pageSize);
    if (request === null) {
      return NO_MATCHES;
    }
    const limit = api.maximumHits ?? pageSize;
    const { hits, listedCount, total } = await readHits(request, limit, signal);
    return api.maximumHits === null
      ? { items: hits, totalItems: totalOf(query, listedCount, total) }
      : { items: hits.slice((page - 1) * pageSize, page * pageSize), totalItems: hits.length };
  };

  return {
    name: api.name,
    search,
    find,
    remember,
    findKnown: (ids) => Promise.resolve(found.get(lookupOf(api.name, ids))),
  };
};
