import { RETRY_AFTER } from "./endpoint.ts";
import type { ErrorResponse } from "./endpoint.ts";

/** Of endpoints whose queries may be slow. */
export const READ_ERROR: ErrorResponse = {
  code: "query_timeout",
  when:
    "The query takes too long, and the message says how to narrow it; or too many reads of the account are waiting. " +
    "Nothing was changed.",
  example:
    "the query takes too long; narrow its filters, for example to an id, an email address or a shorter range of days",
  headers: RETRY_AFTER,
};
