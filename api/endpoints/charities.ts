import { z } from "zod";
import { ein, presentCharity } from "../../modules/charities/charities.rules.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { searchCharities } from "../../modules/charities/searchCharities.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { responseObject, optional, wholeNumber } from "../http/parseRequest.ts";
import { integerUpTo } from "../http/listPages.ts";
import type { AppContext } from "../context.ts";

const MUST_BE_USD = "must be USD";

/** The currency of a donation, which is always the same: a donation in another one must not be recorded as dollars. */
export const currencyField = () =>
  optional(
    z
      .string({ error: MUST_BE_USD })
      .regex(/^usd$/iu, MUST_BE_USD)
      // All that it can say is known, and a repeated request may leave it out.
      .transform((): undefined => undefined),
    "Always USD, which is also the default.",
    "USD",
  );

/** The limit of one key at each charity endpoint of the standalone interface for which the contract has one. */
export const REQUESTS_PER_SECOND = 20;

const MAXIMUM_PAGE = 999_999_999;

export const page = () =>
  integerUpTo(MAXIMUM_PAGE, { default: 1 }).default(1).describe("Page number, from 1.");

export const pageSize = (maximum: number) =>
  integerUpTo(maximum, { default: 20 })
    .default(20)
    .describe(`Number of items on a page. More than ${maximum} is read as ${maximum}.`);

export const total = (description: string) => wholeNumber().meta({ description, examples: [1] });

export const CHARITY_ICON_PATH = "/media/charity.svg";

const charityQuery = z.object({
  name: optional(
    text(200),
    "Words of the name, or their beginnings; typos are tolerated. An EIN is searched as one.",
    "red cross",
  ),
  ein: optional(ein(), "EIN, with or without the dash.", "53-0196605"),
  page_size: pageSize(20),
  page: page(),
});

const charityResponse = responseObject("Charity", {
  nonprofit_id: z
    .string()
    .meta({ description: "The provider's own id.", examples: ["irs_530196605"] }),
  name: z.string().meta({ examples: ["American Red Cross"] }),
  ein: z.string().meta({ description: "Empty if the charity has none.", examples: ["53-0196605"] }),
  description: z.string().meta({
    description: "Empty if the provider has none.",
    examples: ["Public safety and disaster relief, Washington, DC"],
  }),
  website: z.string().meta({
    description: "Empty if the provider has none.",
    examples: ["https://www.redcross.org"],
  }),
  icon_url: z.string().meta({
    description: "A general one, as SVG, if the provider has none.",
    examples: ["https://impact.example/media/charity.svg"],
  }),
});

const charityPage = responseObject("CharityPage", {
  total_items: total("Number of matches on all pages."),
  total_pages: total("0 if nothing matches."),
  charities: z.array(charityResponse),
});

export const charitySearchEndpoint = (
  context: AppContext,
  path: string,
  given: Pick<Endpoint, "requestsPerSecond" | "tag"> & { readonly details: string },
) =>
  keyEndpoint("get", path, {
    ...given,
    operationId: "searchCharities",
    summary: "Search charities by name or EIN",
    details: `${given.details} If the charity provider reports no total, total_items is a lower bound.`,
    errors: ["charity_unconfirmed", "queue_full"],
    schemas: { query: charityQuery, response: charityPage },
    handle: async ({ caller, query }) => {
      const { name = null, page_size: size } = query;
      const search = { name, ein: query.ein ?? null, page: query.page, pageSize: size };
      const { items, totalItems } = await searchCharities(context, caller.accountId, search);
      const generalIcon = `${context.publicBaseUrl()}${CHARITY_ICON_PATH}`;
      return {
        total_items: totalItems,
        total_pages: Math.ceil(totalItems / size),
        charities: items.map((charity) => presentCharity(charity, charity.iconUrl || generalIcon)),
      };
    },
  });
