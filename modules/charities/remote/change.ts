import { z } from "zod";
import { charityOf } from "./charityFields.ts";
import type { OpenRemoteApi } from "./createRemoteProvider.ts";

/*
 * The API of Change, v1 (docs.getchange.io); the facts are from that documentation. A search returns no total, and without a
 * term it lists featured charities.
 */

const nonprofit = charityOf(({ id, name, ein, mission, description, website, icon_url }) => ({
  nonprofitId: id,
  name,
  ein,
  // `description` is the former name of `mission`.
  description: mission || description,
  website,
  iconUrl: icon_url,
}));

export const changeApi: OpenRemoteApi = ({ url, keys: [publicKey = "", secretKey = ""] }) => ({
  name: "change",
  detailsRequest: (id) => ({
    url: `${url}/nonprofits/${id}`,
    headers: {
      authorization: `Basic ${Buffer.from(`${publicKey}:${secretKey}`).toString("base64")}`,
    },
  }),
  details: nonprofit,
  searchRequest: (term, page, limit) => ({
    url: `${url}/nonprofits`,
    parameters: {
      public_key: publicKey,
      ...(term === null ? {} : { search_term: term }),
      page: String(page),
      limit: String(limit),
    },
  }),
  searchResponse: z
    .object({ nonprofits: z.array(z.unknown()) })
    .transform(({ nonprofits }) => ({ hits: nonprofits, total: null })),
  hit: nonprofit,
  maximumHits: null,
  einTermsOf: (ein) => [ein],
});
