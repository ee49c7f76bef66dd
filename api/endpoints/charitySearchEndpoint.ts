import { z } from "zod";
import type { Charity } from "../../modules/charities/charities.rules.ts";
import { ein, formatEin } from "../../modules/charities/charities.rules.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { searchCharities } from "../../modules/charities/searchCharities.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { keyEndpoint, RETRY_AFTER } from "../http/endpoint.ts";
import type { Endpoint, ErrorResponse } from "../http/endpoint.ts";
import { queryObject } from "../http/parseRequest.ts";
import { LIMIT_MUST_BE } from "../http/listPages.ts";
import { queryError } from "../http/errorResponses.ts";
import type { HttpContext } from "../context.ts";
import { monogramUrl } from "./monograms.ts";
import { PROVIDER_SHARE_ERROR } from "./limits.ts";
import { page, pageSize, total } from "./pages.ts";

const charityQuery = queryObject({
  name: text(200)
    .optional()
    .meta({
      description:
        "Words of the name, or their beginnings; typos are tolerated. An EIN is searched as one.",
      examples: ["red cross"],
    }),
  ein: ein()
    .optional()
    .meta({
      description: "EIN, with or without the dash.",
      examples: ["53-0196605"],
    }),
  page_size: pageSize(20),
  page: page(),
});

const charityResponse = z
  .strictObject({
    nonprofit_id: z
      .string()
      .meta({ description: "The provider's own id.", examples: ["irs_530196605"] }),
    name: z.string().meta({ examples: ["American Red Cross"] }),
    ein: z
      .string()
      .meta({ description: "Empty if the charity has none.", examples: ["53-0196605"] }),
    description: z.string().meta({ description: "Empty if the provider has none." }),
    website: z.string().meta({ description: "Empty if the provider has none." }),
    icon_url: z
      .string()
      .meta({ description: "A monogram of the name, as SVG, if the provider has none." }),
  })
  .meta({ id: "Charity" });

const presentCharity = (
  charity: Charity,
  publicBaseUrl: string,
): z.output<typeof charityResponse> => ({
  nonprofit_id: charity.nonprofitId,
  name: charity.name,
  ein: charity.ein === null ? "" : formatEin(charity.ein),
  description: charity.description,
  website: charity.website,
  icon_url: charity.iconUrl || monogramUrl(publicBaseUrl, charity.name),
});

const charityPage = z
  .strictObject({
    total_items: total("Number of matches on all pages."),
    total_pages: total("0 if nothing matches."),
    charities: z.array(charityResponse),
  })
  .meta({ id: "CharityPage" });

/** Searches with the account's provider, and sets the header that says whether the total is exact. */
const findCharityPage = async (
  context: HttpContext,
  ctx: RequestContext,
  accountId: string,
  query: z.output<typeof charityQuery>,
): Promise<z.output<typeof charityPage>> => {
  const found = await searchCharities(context, accountId, {
    name: query.name ?? null,
    ein: query.ein ?? null,
    page: query.page,
    pageSize: query.page_size,
  });
  if (!found.totalIsExact) {
    ctx.set("Total-Is-Exact", "false");
  }
  return {
    total_items: found.totalItems,
    total_pages: Math.ceil(found.totalItems / query.page_size),
    charities: found.items.map((charity) => presentCharity(charity, context.publicBaseUrl())),
  };
};

const EXAMPLE: z.output<typeof charityPage> = {
  total_items: 1,
  total_pages: 1,
  charities: [
    {
      nonprofit_id: "irs_530196605",
      name: "American Red Cross",
      ein: "53-0196605",
      description: "Public safety and disaster relief, Washington, DC",
      website: "https://www.redcross.org",
      icon_url: "https://impact.example.com/media/monograms/AR-84.svg",
    },
  ],
};

/** The charity search of an interface. */
export const charitySearchEndpoint = (
  context: HttpContext,
  {
    path,
    tag,
    details,
    keyError,
    ...rest
  }: {
    readonly path: string;
    readonly requestsPerSecond?: number;
    readonly tag: string;
    readonly details: string;
    readonly keyError: ErrorResponse;
  },
): Endpoint =>
  keyEndpoint({
    method: "get",
    path,
    ...rest,
    description: {
      operationId: "searchCharities",
      tag,
      summary: "Search charities by name or EIN",
      details,
      responseHeaders: { "Total-Is-Exact": "`false` if the provider reports no exact total." },
      errors: [
        queryError(`page_size: ${LIMIT_MUST_BE}`),
        keyError,
        PROVIDER_SHARE_ERROR,
        {
          code: "internal_error",
          when: "The charity provider failed (as in the example), or an unexpected error occurred.",
          example: "charity search failed",
        },
        {
          code: "queue_full",
          when: "Too many searches are waiting.",
          example: "too many requests are waiting, try again",
          headers: RETRY_AFTER,
        },
      ],
    },
    schemas: { query: charityQuery, response: charityPage },
    examples: { response: EXAMPLE },
    handle: ({ ctx, caller, query }) => findCharityPage(context, ctx, caller.accountId, query),
  });
