import { testQuotaMessage } from "../../domain/accounts/limits.ts";
import type { ErrorResponse } from "./endpoint.ts";

/** The error of writes with test keys, on both interfaces. */
export const TEST_QUOTA_ERROR: ErrorResponse = {
  code: "test_quota_reached",
  when: "The account's test keys have stored as many records as they may; nothing was recorded.",
  example: testQuotaMessage(1_000_000),
};
