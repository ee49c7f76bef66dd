import type { SearchDependencies } from "../../../services/charities/searchCharities.ts";
import {
  CHARITY_BUSY_ERROR,
  CHARITY_PAGE_EXAMPLE,
  CHARITY_SEARCH_ERROR,
  CHARITY_SEARCH_HEADERS,
  charityPage,
  charityQuery,
  findCharityPage,
} from "../../charities/charitySearch.ts";
import { RATE_ERROR, REQUESTS_PER_SECOND } from "../../charities/limits.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { queryError } from "../../http/queryError.ts";
import { KEY_ERROR } from "../errors.ts";

export const searchEndpoint = ({ db, charities }: SearchDependencies): Endpoint =>
  keyEndpoint({
    method: "get",
    path: "/app/api/charity/search",
    requestsPerSecond: REQUESTS_PER_SECOND,
    description: {
      operationId: "searchCharities",
      tag: "donations",
      summary: "Search charities by name or EIN",
      details:
        "The nonprofit_id and the ein of a result are accepted as the charity_id of a donation. If the charity provider " +
        "reports no exact total, total_items is a lower bound, and the header Total-Is-Exact is `false`.",
      responseHeaders: CHARITY_SEARCH_HEADERS,
      errors: [
        queryError("page_size: must be an integer from 1 to 20"),
        KEY_ERROR,
        RATE_ERROR,
        CHARITY_SEARCH_ERROR,
        CHARITY_BUSY_ERROR,
      ],
    },
    schemas: { query: charityQuery, response: charityPage },
    examples: { response: CHARITY_PAGE_EXAMPLE },
    handle: ({ ctx, caller, query }) =>
      findCharityPage({ db, charities }, ctx, caller.accountId, query),
  });
