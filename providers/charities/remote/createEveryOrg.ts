import { createHash } from "node:crypto";
import { z } from "zod";
import type { TakePermit } from "../../../db/rateLimits.ts";
import type { Charity } from "../../../domain/charities/charities.ts";
import type { CharityProvider } from "../provider.ts";
import { CharityProviderError } from "../provider.ts";
import { askJson } from "./askJson.ts";
import { isPathSafe, looseEin, looseText, looseUrl, requiredText } from "./fields.ts";
import type { RemoteSettings } from "./remoteSettings.ts";
import { searchByEin } from "./searchByEin.ts";

/*
 * Every.org's partner API, v0.2: github.com/everydotorg/charity-api-docs, docs/endpoints/nonprofits.md. A search gives at
 * most 50 hits and neither pages nor a total; the limits are per key and minute.
 */

const MOST_HITS = 50;
const DETAILS_PER_MINUTE = 100;
const SEARCHES_PER_MINUTE = 500;
const MINUTE_MS = 60_000;

const detailsAnswer = z.object({
  data: z.object({
    nonprofit: z.object({
      primarySlug: requiredText(),
      name: requiredText(),
      ein: looseEin(),
      description: looseText(),
      descriptionLong: looseText(),
      websiteUrl: looseUrl(),
      logoUrl: looseUrl(),
      isDisbursable: z.boolean().nullish(),
    }),
  }),
});

const hit = z.object({
  name: requiredText(),
  // The last part of the profile's address is the slug, by which the details are found.
  profileUrl: z
    .url()
    .transform((address) => new URL(address).pathname.split("/").findLast(Boolean) ?? ""),
  ein: looseEin(),
  description: looseText(),
  websiteUrl: looseUrl(),
  logoUrl: looseUrl(),
});

const searchAnswer = z.object({ nonprofits: z.array(hit) });

export const createEveryOrg = (
  { apiBase, apiKey, timeoutMs }: RemoteSettings<{ apiKey: string }>,
  { takePermit }: { readonly takePermit: TakePermit },
): CharityProvider => {
  // The limits are a key's; its hash names it without giving it away.
  const keyName = createHash("sha256").update(apiKey).digest("hex").slice(0, 16);

  const address = (path: string, parameters: Readonly<Record<string, string>> = {}): URL => {
    const url = new URL(`${apiBase}${path}`);
    url.search = new URLSearchParams({ ...parameters, apiKey }).toString();
    return url;
  };

  const requirePermit = async (kind: "details" | "search", requests: number): Promise<void> => {
    if (!(await takePermit(`everyorg/${keyName}/${kind}`, { requests, windowMs: MINUTE_MS }))) {
      throw new CharityProviderError(
        `everyorg: its limit of ${requests} ${kind} a minute is used up`,
      );
    }
  };

  const findBy = async (identifier: string, signal: AbortSignal): Promise<Charity | null> => {
    const found = await askJson(
      {
        provider: "everyorg",
        url: address(`/nonprofit/${identifier}`),
        timeoutMs,
        answer: detailsAnswer,
        takePermit: () => requirePermit("details", DETAILS_PER_MINUTE),
      },
      signal,
    );
    const nonprofit = found?.data.nonprofit;
    // It lists some that it cannot pass donations on to.
    return nonprofit === undefined || nonprofit.isDisbursable === false
      ? null
      : {
          nonprofitId: nonprofit.primarySlug,
          name: nonprofit.name,
          ein: nonprofit.ein,
          description: nonprofit.descriptionLong || nonprofit.description,
          website: nonprofit.websiteUrl,
          iconUrl: nonprofit.logoUrl,
        };
  };

  const findByEin: CharityProvider["findByEin"] = async (ein, signal) => {
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
        // It has no list of all charities, and none that it puts first.
        return { items: [], totalItems: 0, totalIsExact: false };
      }
      const found = await askJson(
        {
          provider: "everyorg",
          url: address(`/search/${encodeURIComponent(name)}`, { take: String(MOST_HITS) }),
          timeoutMs,
          answer: searchAnswer,
          takePermit: () => requirePermit("search", SEARCHES_PER_MINUTE),
        },
        signal,
      );
      const hits = (found?.nonprofits ?? []).filter(({ profileUrl }) => profileUrl !== "");
      return {
        items: hits
          .slice((page - 1) * pageSize, page * pageSize)
          .map(({ name: called, profileUrl, ein: number, description, websiteUrl, logoUrl }) => ({
            nonprofitId: profileUrl,
            name: called,
            ein: number,
            description,
            website: websiteUrl,
            iconUrl: logoUrl,
          })),
        totalItems: hits.length,
        totalIsExact: hits.length < MOST_HITS,
      };
    },
  };
};
