import { ActivityFailure, RetryState } from "@temporalio/common";

/** Whether an activity failed because the time for all of its attempts is over. */
export const isTimeout = (error: unknown): boolean =>
  error instanceof ActivityFailure && error.retryState === RetryState.TIMEOUT;
