import type { DonateDependencies } from "../../../services/charities/donate.ts";
import { searchCharities } from "../../../services/charities/searchCharities.ts";
import { subscribeToDonations } from "../../../services/charities/subscribeToDonations.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import type { Endpoint, ErrorResponse } from "../../http/endpoint.ts";
import { KEY_ERROR } from "../errorResponses.ts";
import { donationEndpoints } from "./donationEndpoints.ts";
import { EXAMPLES } from "./examples.ts";
import { RATE_ERROR, REQUESTS_PER_SECOND, TAG } from "./limits.ts";
import { presentCharity, searchQuery, searchResponse, subscribeResponse } from "./schemas.ts";

const SEARCH_ERROR: ErrorResponse = {
  code: "internal_error",
  when: "The charity provider did not answer, or an unexpected fault.",
  example: "charity search failed",
};

const searchEndpoint = ({ db, charities }: DonateDependencies): Endpoint =>
  keyEndpoint({
    method: "get",
    path: "/charities/search",
    requestsPerSecond: REQUESTS_PER_SECOND,
    description: {
      operationId: "searchCharities",
      tag: TAG,
      summary: "Search charities by name or EIN",
      details:
        "Results come from the provider that the operator has chosen for the organization. Where it tells no total, " +
        "total_items is what is known to be there at least, and the header Total-Is-Exact says so.",
      responseHeaders: { "Total-Is-Exact": "`false` where the provider tells no total." },
      errors: [
        {
          code: "request_invalid",
          when: "A parameter is not as it must be.",
          example: "page_size: must be an integer from 1 to 20",
        },
        KEY_ERROR,
        RATE_ERROR,
        SEARCH_ERROR,
      ],
    },
    schemas: { query: searchQuery, response: searchResponse },
    examples: EXAMPLES.search,
    handle: async ({ ctx, caller, query }) => {
      const { page, page_size: pageSize } = query;
      const found = await searchCharities({ db, charities }, caller.accountId, {
        name: query.name ?? null,
        ein: query.ein ?? null,
        page,
        pageSize,
      });
      if (!found.totalIsExact) {
        ctx.set("Total-Is-Exact", "false");
      }
      return {
        total_items: found.totalItems,
        total_pages: Math.ceil(found.totalItems / pageSize),
        charities: found.items.map(presentCharity),
      };
    },
  });

const subscribeEndpoint = ({ db, clock, billing }: DonateDependencies): Endpoint =>
  keyEndpoint({
    method: "post",
    path: "/charities/subscribe",
    requestsPerSecond: REQUESTS_PER_SECOND,
    description: {
      operationId: "subscribeToDonations",
      tag: TAG,
      summary: "Subscribe to donations",
      details:
        "Adds the flat-rate and the metered item of donations to the organization's subscription; needed once before " +
        "live donations. Repeating it changes nothing. There is no body; with a test key nothing is opened for live donations.",
      errors: [
        {
          code: "request_invalid",
          when: "The organization has no subscription that the items could be added to, or a field was sent.",
          example: "the organization has no subscription that donations could be added to",
        },
        KEY_ERROR,
        RATE_ERROR,
        {
          code: "internal_error",
          when: "The payment processor failed; nothing was added. Or an unexpected fault.",
          example: "the payment processor could not provision the donation subscription",
        },
      ],
    },
    schemas: { response: subscribeResponse },
    examples: EXAMPLES.subscribe,
    handle: async ({ caller: { accountId, mode } }) => {
      await subscribeToDonations({ db, clock, billing }, { accountId, mode });
      return {
        success: true,
        message:
          mode === "live"
            ? "donations are subscribed to"
            : "donations are subscribed to in test mode; live donations need the production key",
      };
    },
  });

/** Charities, and donations to them. */
export const charityEndpoints = (dependencies: DonateDependencies): readonly Endpoint[] => [
  searchEndpoint(dependencies),
  ...donationEndpoints(dependencies),
  subscribeEndpoint(dependencies),
];
