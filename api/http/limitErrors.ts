import { dailyLimitMessage } from "../../modules/accounts/limits.rules.ts";
import type { ErrorResponse } from "./endpoint.ts";

/** The error of registrations of accounts with a limit, on both interfaces. */
export const DAILY_LIMIT_ERROR: ErrorResponse = {
  code: "daily_limit_reached",
  when:
    "The operator has limited the units that the account may register on one day in UTC, and too few are left today; " +
    "nothing was recorded. The same request can succeed on the next day.",
  example: dailyLimitMessage(10_000, 9990),
};
