import { charitySearchEndpoint } from "../endpoints/charities.ts";
import type { Endpoint } from "../http/endpoint.ts";
import type { HttpContext } from "../context.ts";
import { KEY_ERROR } from "./errors.ts";

export const searchEndpoint = (context: HttpContext): Endpoint =>
  charitySearchEndpoint(context, {
    path: "/app/api/charity/search",
    tag: "donations",
    details:
      "The nonprofit_id and the ein of a result are accepted as the charity_id of a donation. If the charity provider " +
      "reports no exact total, total_items is a lower bound, and the header Total-Is-Exact is `false`.",
    keyError: KEY_ERROR,
  });
