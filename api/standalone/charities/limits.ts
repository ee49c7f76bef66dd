import type { ErrorResponse } from "../../http/endpoint.ts";

export const TAG = "charities";

/** Of one key at one of the endpoints below /charities. */
export const REQUESTS_PER_SECOND = 20;

export const RATE_ERROR: ErrorResponse = {
  code: "rate_limited",
  when: `More than ${REQUESTS_PER_SECOND} requests of the key at this endpoint within a second.`,
  example: "rate limit exceeded",
  headers: { "Retry-After": "Seconds to wait." },
};
