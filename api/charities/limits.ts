import type { ErrorResponse } from "../http/endpoint.ts";

/**
 * The limit of one key at each charity endpoint for which the contract has one, and at the store's searches and lists of
 * donations.
 */
export const REQUESTS_PER_SECOND = 20;

export const RATE_ERROR: ErrorResponse = {
  code: "rate_limited",
  when: `The key sent more than ${REQUESTS_PER_SECOND} requests to this endpoint within a second.`,
  example: "rate limit exceeded",
  headers: { "Retry-After": "Seconds to wait before the next request." },
};
