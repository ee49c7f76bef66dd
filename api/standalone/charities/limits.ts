import type { ErrorResponse } from "../../http/endpoint.ts";

export const TAG = "charities";

/** The limit of one key at each endpoint below /charities. */
export const REQUESTS_PER_SECOND = 20;

export const RATE_ERROR: ErrorResponse = {
  code: "rate_limited",
  when: `The key sent more than ${REQUESTS_PER_SECOND} requests to this endpoint within a second.`,
  example: "rate limit exceeded",
  headers: { "Retry-After": "Seconds to wait before the next request." },
};
