import type { Config } from "../../config/config.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { AccountLimits } from "../../domain/accounts/limits.ts";

/** Returns the limits of accounts for which an operator has set none. */
export const readAccountLimits = (
  config: Pick<
    Config,
    | "LIVE_REQUESTS_PER_SECOND"
    | "LIVE_CONCURRENT_REQUESTS"
    | "TEST_REQUESTS_PER_SECOND"
    | "TEST_CONCURRENT_REQUESTS"
    | "MAXIMUM_COUNT_PER_REQUEST"
    | "MAXIMUM_COUNT_PER_DAY"
    | "MAXIMUM_TEST_RECORDS"
  >,
): Readonly<Record<Mode, AccountLimits>> => {
  const counts = {
    countPerRequest: config.MAXIMUM_COUNT_PER_REQUEST,
    countPerDay: config.MAXIMUM_COUNT_PER_DAY ?? null,
    testRecords: config.MAXIMUM_TEST_RECORDS,
  };
  return {
    live: {
      requestsPerSecond: config.LIVE_REQUESTS_PER_SECOND,
      concurrentRequests: config.LIVE_CONCURRENT_REQUESTS,
      ...counts,
    },
    test: {
      requestsPerSecond: config.TEST_REQUESTS_PER_SECOND,
      concurrentRequests: config.TEST_CONCURRENT_REQUESTS,
      ...counts,
    },
  };
};
