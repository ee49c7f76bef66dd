import { z } from "zod";
import type { Charity } from "../charities.rules.ts";
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
 * Speaks the API of Change, v1 (docs.getchange.io); the facts are from that documentation. A search returns no total,
 * and without a term it lists featured charities.
 */

const nonprofit = z
  .object({
    id: requiredText(),
    name: requiredText(),
    ein: looseEin(),
    mission: looseText(),
    // The former name of `mission`.
    description: looseText(),
    website: looseUrl(),
    icon_url: looseUrl(),
  })
  .transform(({ id, name, ein, mission, description, website, icon_url: iconUrl }): Charity => ({
    nonprofitId: id,
    name,
    ein,
    description: mission || description,
    website,
    iconUrl,
  }));

const searchResponse = z.object({ nonprofits: z.array(z.unknown()) });

export const createChange = ({
  apiBase,
  publicKey,
  secretKey,
  startTimeout,
  onUnusable,
}: RemoteSettings<{ publicKey: string; secretKey: string }>): RemoteCharityProvider => {
  const authorization = `Basic ${Buffer.from(`${publicKey}:${secretKey}`).toString("base64")}`;

  const search = async (term: string | null, page: number, limit: number, signal: AbortSignal) => {
    const url = new URL(`${apiBase}/nonprofits`);
    url.search = new URLSearchParams({
      public_key: publicKey,
      ...(term === null ? {} : { search_term: term }),
      page: String(page),
      limit: String(limit),
    }).toString();
    const found = await fetchJson(
      { provider: "change", call: "search", url, startTimeout, schema: searchResponse },
      signal,
    );
    const listed = (found?.nonprofits ?? []).slice(0, limit);
    return {
      hits: await readHits("change", listed, nonprofit, onUnusable),
      listedCount: listed.length,
    };
  };

  const findByEin: RemoteCharityProvider["findByEin"] = async (ein, signal) => {
    const { hits } = await search(ein, 1, 20, signal);
    return hits.find((charity) => charity.ein === ein) ?? null;
  };

  return {
    name: "change",
    findByEin,
    findById: (id, signal) =>
      fetchCharity(
        {
          provider: "change",
          url: `${apiBase}/nonprofits`,
          headers: { authorization },
          startTimeout,
          schema: nonprofit,
        },
        id,
        signal,
      ),
    search: async (query, signal) => {
      const { name, ein, page, pageSize } = query;
      if (ein !== null) {
        return searchByEin(findByEin, ein, query, signal);
      }
      const { hits, listedCount } = await search(name, page, pageSize, signal);
      const seen = countSeen(query, listedCount);
      return {
        items: hits,
        // A full page may not be the last, so a client that pages by the total must be able to request another.
        totalItems: listedCount === pageSize ? seen + 1 : seen,
        totalIsExact: listedCount < pageSize && (listedCount > 0 || page === 1),
      };
    },
  };
};
