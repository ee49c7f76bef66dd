import type { Errors } from "./endpoint.ts";

/** Of endpoints whose queries may be slow. */
export const READ_ERROR: Errors = {
  query_timeout:
    "The query takes too long, and the message says how to narrow it; or too many reads of the account are waiting. " +
    "Nothing was changed.",
};

/** Of writes, which wait for their turn. */
export const QUEUE_ERROR: Errors = {
  queue_full: "Too many requests are waiting; nothing was recorded. Try again.",
};

/** Of registrations of accounts with a limit, on both interfaces. */
export const DAILY_LIMIT_ERROR: Errors = {
  daily_limit_reached:
    "The operator has limited the units that the account may register on one day in UTC, and too few are left today; " +
    "nothing was recorded. The same request can succeed on the next day.",
};
