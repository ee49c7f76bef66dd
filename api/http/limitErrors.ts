import { dailyLimitMessage, testQuotaMessage } from "../../domain/accounts/limits.ts";
import type { ErrorResponse } from "./endpoint.ts";

/** The error of registrations, on both interfaces. */
export const DAILY_LIMIT_ERROR: ErrorResponse = {
  code: "daily_limit_reached",
  when:
    "The operator has limited the units that the account may register on one day in UTC, and too few are left today; " +
    "nothing was recorded. The same request can succeed on the next day.",
  example: dailyLimitMessage(10_000, 9990),
};

/** The error of writes with test keys, on both interfaces. */
export const TEST_QUOTA_ERROR: ErrorResponse = {
  code: "test_quota_reached",
  when: "The account's test keys have stored as many records as they may; nothing was recorded.",
  example: testQuotaMessage(1_000_000),
};
