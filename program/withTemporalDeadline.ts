import type { Client } from "@temporalio/client";

/**
 * Calls Temporal with bounded patience. The signal ends what a deadline alone does not: the client tries a call again
 * after it.
 */
export const withTemporalDeadline = <Result>(
  temporal: Client,
  timeoutMs: number,
  work: () => Promise<Result>,
): Promise<Result> =>
  temporal.withAbortSignal(AbortSignal.timeout(timeoutMs), () =>
    temporal.withDeadline(Date.now() + timeoutMs, work),
  );
