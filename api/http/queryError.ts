import type { ErrorResponse } from "./endpoint.ts";

/** The error of endpoints whose query parameters are checked. */
export const queryError = (example: string): ErrorResponse => ({
  code: "request_invalid",
  when: "A query parameter is repeated or malformed; the message names it.",
  example,
});
