import { createHash } from "node:crypto";
import { z } from "zod";
import type { RateLimit } from "../../../db/rateLimits.ts";
import type { Charity } from "../charities.rules.ts";
import { MINUTE_MS } from "../../../runtime/durations.rules.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import type { RemoteCharityProvider } from "../provider.ts";
import { CharityProviderError } from "../provider.ts";
import { fetchJson, isPathSafe } from "./fetchJson.ts";
import { looseEin, looseText, looseUrl, requiredText, readHits, searchByEin } from "./readHits.ts";
import type { RemoteSettings } from "./fetchJson.ts";

/*
 * Speaks the partner API of Every.org, v0.2; the facts are from github.com/everydotorg/charity-api-docs,
 * docs/endpoints/nonprofits.md. A search returns at most 50 hits, without pages or a total. Rate limits are per API key
 * and minute.
 */

const MAXIMUM_HITS = 50;
const PER_MINUTE = { details: 100, search: 500 };

/** How much of each limit one account may use, so that the others can always call Every.org, too. */
const SHARE_OF_ACCOUNT = 3 / 4;

const details = z
  .object({
    primarySlug: requiredText(),
    name: requiredText(),
    ein: looseEin(),
    description: looseText(),
    descriptionLong: looseText(),
    websiteUrl: looseUrl(),
    logoUrl: looseUrl(),
    isDisbursable: z.boolean().nullish(),
  })
  .transform((nonprofit): Charity | null =>
    // Every.org lists charities that it cannot pass donations on to.
    nonprofit.isDisbursable === false
      ? null
      : {
          nonprofitId: nonprofit.primarySlug,
          name: nonprofit.name,
          ein: nonprofit.ein,
          description: nonprofit.descriptionLong || nonprofit.description,
          website: nonprofit.websiteUrl,
          iconUrl: nonprofit.logoUrl,
        },
  );

const detailsResponse = z.object({ data: z.object({ nonprofit: details }) });

const hit = z
  .object({
    name: requiredText(),
    // The last segment of the profile's URL is the slug, which the details endpoint accepts.
    profileUrl: z
      .url()
      .transform((url) => new URL(url).pathname.split("/").findLast(Boolean) ?? ""),
    ein: looseEin(),
    description: looseText(),
    websiteUrl: looseUrl(),
    logoUrl: looseUrl(),
  })
  .transform(
    ({ profileUrl: nonprofitId, websiteUrl: website, logoUrl: iconUrl, ...charity }): Charity => ({
      nonprofitId,
      ...charity,
      website,
      iconUrl,
    }),
  );

const searchResponse = z.object({ nonprofits: z.array(z.unknown()) });

type Permits = {
  readonly accountId: string;
  /** Returns 0 if the request is permitted, otherwise the minimum wait in milliseconds. */
  readonly waitForPermit: (bucket: string, limit: RateLimit) => Promise<number>;
};

/**
 * Checks the rate limits of an API key.
 * @throws DomainError charity_unconfirmed beyond the account's share of a limit
 * @throws CharityProviderError beyond the limit
 */
const requirePermit = async (
  { accountId, waitForPermit }: Permits,
  keyName: string,
  kind: keyof typeof PER_MINUTE,
): Promise<void> => {
  const bucket = `everyorg/${keyName}/${kind}`;
  const requests = PER_MINUTE[kind];
  const share = requests * SHARE_OF_ACCOUNT;
  const waitMs = await waitForPermit(`${bucket}/${accountId}`, {
    requests: share,
    windowMs: MINUTE_MS,
  });
  if (waitMs > 0) {
    throw new DomainError(
      "charity_unconfirmed",
      `too many ${kind} requests to the charity provider: an account may use ${share} a minute`,
      { retryAfterSeconds: Math.ceil(waitMs / 1000) },
    );
  }
  if ((await waitForPermit(bucket, { requests, windowMs: MINUTE_MS })) > 0) {
    throw new CharityProviderError(
      `everyorg: rate limit of ${requests} ${kind} requests a minute reached`,
    );
  }
};

export const createEveryOrg = (
  { apiBase, apiKey, startTimeout, onUnusable }: RemoteSettings<{ apiKey: string }>,
  permits: Permits,
): RemoteCharityProvider => {
  // Rate limits are per API key; a hash names the key without storing it.
  const keyName = createHash("sha256").update(apiKey).digest("hex").slice(0, 16);

  const urlOf = (path: string, parameters: Readonly<Record<string, string>> = {}): URL => {
    const url = new URL(`${apiBase}${path}`);
    url.search = new URLSearchParams({ ...parameters, apiKey }).toString();
    return url;
  };

  const findBy = async (identifier: string, signal: AbortSignal): Promise<Charity | null> => {
    const found = await fetchJson(
      {
        provider: "everyorg",
        call: "details",
        url: urlOf(`/nonprofit/${identifier}`),
        startTimeout,
        schema: detailsResponse,
        takePermit: () => requirePermit(permits, keyName, "details"),
      },
      signal,
    );
    return found?.data.nonprofit ?? null;
  };

  const findByEin: RemoteCharityProvider["findByEin"] = async (ein, signal) => {
    const charity = await findBy(ein, signal);
    return charity?.ein === ein ? charity : null;
  };

  return {
    name: "everyorg",
    findByEin,
    findById: (id, signal) => (isPathSafe(id) ? findBy(id, signal) : Promise.resolve(null)),
    search: async (query, signal) => {
      const { name, ein, page, pageSize } = query;
      if (ein !== null) {
        return searchByEin(findByEin, ein, query, signal);
      }
      if (name === null) {
        // The API cannot list charities without a search term.
        return { items: [], totalItems: 0, totalIsExact: false };
      }
      const found = await fetchJson(
        {
          provider: "everyorg",
          call: "search",
          url: urlOf(`/search/${encodeURIComponent(name)}`, { take: String(MAXIMUM_HITS) }),
          startTimeout,
          schema: searchResponse,
          takePermit: () => requirePermit(permits, keyName, "search"),
        },
        signal,
      );
      const listed = found?.nonprofits ?? [];
      const hits = (await readHits("everyorg", listed, hit, onUnusable)).filter(
        ({ nonprofitId }) => nonprofitId !== "",
      );
      return {
        items: hits.slice((page - 1) * pageSize, page * pageSize),
        totalItems: hits.length,
        totalIsExact: listed.length < MAXIMUM_HITS,
      };
    },
  };
};
