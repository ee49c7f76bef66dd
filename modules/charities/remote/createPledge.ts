import { z } from "zod";
import type { Charity } from "../charities.rules.ts";
import { formatEin } from "../charities.rules.ts";
import type { RemoteCharityProvider } from "../provider.ts";
import { createPagedProvider } from "./createPagedProvider.ts";
import { looseEin, looseText, looseUrl, requiredText } from "./readHits.ts";
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

export const createPledge = ({
  apiBase,
  apiKey,
  ...settings
}: RemoteSettings<{ apiKey: string }>): RemoteCharityProvider => {
  const headers = { authorization: `Bearer ${apiKey}` };
  return createPagedProvider(
    {
      provider: "pledge",
      url: `${apiBase}/organizations`,
      searchHeaders: headers,
      detailsHeaders: headers,
      charity: organization,
      searchResponse: z
        .object({ total_count: z.int().min(0), results: z.array(z.unknown()) })
        .transform(({ total_count: total, results: hits }) => ({ hits, total })),
      parametersOf: (term, page, limit) => ({
        ...(term === null ? {} : { q: term }),
        page,
        per_page: limit,
      }),
      // The documentation does not say whether its search expects an EIN with or without the dash.
      termsOf: (ein) => [ein, formatEin(ein)],
    },
    settings,
  );
};
