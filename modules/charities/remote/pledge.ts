import { z } from "zod";
import { formatEin } from "../charities.rules.ts";
import { charityOf } from "./charityFields.ts";
import type { OpenRemoteApi } from "./createRemoteProvider.ts";

/*
 * The API of Pledge, v1 (developer.pledge.to); the facts are from that documentation. It also lists foreign charities, which
 * have no EIN.
 */

const organization = charityOf(({ id, name, ngo_id, mission, website_url, logo_url }) => ({
  nonprofitId: id,
  name,
  ein: ngo_id,
  description: mission,
  website: website_url,
  iconUrl: logo_url,
}));

export const pledgeApi: OpenRemoteApi = ({ url, keys: [apiKey = ""] }) => {
  const headers = { authorization: `Bearer ${apiKey}` };
  return {
    name: "pledge",
    detailsRequest: (id) => ({ url: `${url}/organizations/${id}`, headers }),
    details: organization,
    searchRequest: (term, page, limit) => ({
      url: `${url}/organizations`,
      parameters: {
        ...(term === null ? {} : { q: term }),
        page: String(page),
        per_page: String(limit),
      },
      headers,
    }),
    searchResponse: z
      .object({ total_count: z.int().min(0), results: z.array(z.unknown()) })
      .transform(({ total_count: total, results: hits }) => ({ hits, total })),
    hit: organization,
    maximumHits: null,
    // The documentation does not say whether its search expects an EIN with or without the dash.
    einTermsOf: (ein) => [ein, formatEin(ein)],
  };
};
