import type { CommonQueryMethods } from "slonik";
import { joinCalls } from "../../../db/joinCalls.ts";
import { recordAttempts } from "../../../db/webhooks/deliveries.ts";
import type { EndedAttempt } from "../../../db/webhooks/deliveries.ts";
import { recordEndpointResults } from "../../../db/webhooks/endpoints.ts";
import type { EndpointResult } from "../../../db/webhooks/endpoints.ts";

/** Returns what attempts, in the order in which they ended, say about the endpoints. */
const resultsOf = (attempts: readonly EndedAttempt[]): readonly EndpointResult[] => {
  const results = new Map<string, EndpointResult>();
  for (const { delivery, endedAt, result } of attempts) {
    const { endpointId } = delivery;
    const earlier = results.get(endpointId) ?? { endpointId, hasSucceeded: false, failedAt: null };
    results.set(
      endpointId,
      result.error === null
        ? { endpointId, hasSucceeded: true, failedAt: null }
        : { ...earlier, failedAt: earlier.failedAt ?? endedAt },
    );
  }
  return [...results.values()];
};

/**
 * Returns a function that records an attempt that has ended. Attempts that end while others are recorded are recorded
 * together.
 */
export const createAttemptRecords = (
  db: CommonQueryMethods,
): ((attempt: EndedAttempt) => Promise<void>) =>
  joinCalls(async (attempts: readonly EndedAttempt[]) => {
    await recordAttempts(db, attempts);
    await recordEndpointResults(db, resultsOf(attempts));
    return attempts.map(() => undefined);
  });
