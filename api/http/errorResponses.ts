import type { ErrorResponse } from "./endpoint.ts";
import { RETRY_AFTER } from "./endpoint.ts";
import { dailyLimitMessage } from "../../modules/accounts/limits.rules.ts";

/** The error of endpoints whose query parameters are checked. */
export const queryError = (example: string): ErrorResponse => ({
  code: "request_invalid",
  when: "A query parameter is repeated or malformed; the message names it.",
  example,
});

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

/** The error of registrations of accounts with a limit, on both interfaces. */
export const DAILY_LIMIT_ERROR: ErrorResponse = {
  code: "daily_limit_reached",
  when:
    "The operator has limited the units that the account may register on one day in UTC, and too few are left today; " +
    "nothing was recorded. The same request can succeed on the next day.",
  example: dailyLimitMessage(10_000, 9990),
};
