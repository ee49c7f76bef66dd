import { RETRY_AFTER } from "../http/endpoint.ts";
import type { ErrorResponse } from "../http/endpoint.ts";

/** The limit of one key at each charity endpoint of the standalone interface for which the contract has one. */
export const REQUESTS_PER_SECOND = 20;

/** The error of endpoints that may call the account's charity provider. */
export const PROVIDER_SHARE_ERROR: ErrorResponse = {
  code: "charity_unconfirmed",
  when: "The account has used its share of the requests that the charity provider accepts in a minute.",
  example: "too many details requests to the charity provider: an account may use 75 a minute",
  headers: RETRY_AFTER,
};
