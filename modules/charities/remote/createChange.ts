import { z } from "zod";
import type { Charity } from "../charities.rules.ts";
import type { RemoteCharityProvider } from "../provider.ts";
import { createPagedProvider } from "./createPagedProvider.ts";
import { looseEin, looseText, looseUrl, requiredText } from "./readHits.ts";
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

export const createChange = ({
  apiBase,
  publicKey,
  secretKey,
  ...settings
}: RemoteSettings<{ publicKey: string; secretKey: string }>): RemoteCharityProvider =>
  createPagedProvider(
    {
      provider: "change",
      url: `${apiBase}/nonprofits`,
      detailsHeaders: {
        authorization: `Basic ${Buffer.from(`${publicKey}:${secretKey}`).toString("base64")}`,
      },
      charity: nonprofit,
      searchResponse: z
        .object({ nonprofits: z.array(z.unknown()) })
        .transform(({ nonprofits }) => ({ hits: nonprofits, total: null })),
      parametersOf: (term, page, limit) => ({
        public_key: publicKey,
        ...(term === null ? {} : { search_term: term }),
        page,
        limit,
      }),
      termsOf: (ein) => [ein],
    },
    settings,
  );
