import type { CommonQueryMethods } from "slonik";
import { joinCalls } from "../../db/joinCalls.ts";
import { recordAttempts } from "./attempts.sql.ts";
import type { EndedAttempt } from "./attempts.sql.ts";
import { recordEndpointResults } from "./endpoints.sql.ts";
import type { EndpointResult } from "./endpoints.sql.ts";

/** Returns what attempts, in the order in which they ended, say about the endpoints at each of their URLs. */
const resultsOf = (attempts: readonly EndedAttempt[]): readonly EndpointResult[] => {
  const results = new Map<string, EndpointResult>();
  for (const { delivery, endedAt, result } of attempts) {
    const { endpointId, url } = delivery;
    const key = `${endpointId}/${url}`;
    const earlier = results.get(key) ?? { endpointId, url, hasSucceeded: false, failedAt: null };
    results.set(
      key,
      result.error === null
        ? { endpointId, url, hasSucceeded: true, failedAt: null }
        : { ...earlier, failedAt: earlier.failedAt ?? endedAt },
    );
  }
  return [...results.values()];
};

/** Divides attempts so that no part has two of the same delivery, the earlier ones first. */
const withoutRepetition = (
  attempts: readonly EndedAttempt[],
): readonly (readonly EndedAttempt[])[] => {
  const parts: EndedAttempt[][] = [];
  const counts = new Map<string, number>();
  for (const attempt of attempts) {
    const key = `${attempt.delivery.endpointId}/${attempt.delivery.id}`;
    const earlier = counts.get(key) ?? 0;
    counts.set(key, earlier + 1);
    (parts[earlier] ??= []).push(attempt);
  }
  return parts;
};

/**
 * Returns a function that records an attempt that has ended. Attempts that end while others are recorded are recorded
 * together.
 */
export const createAttemptRecords = (
  db: CommonQueryMethods,
): ((attempt: EndedAttempt) => Promise<void>) =>
  joinCalls(async (attempts: readonly EndedAttempt[]) => {
    for (const part of withoutRepetition(attempts)) {
      await recordAttempts(db, part);
    }
    await recordEndpointResults(db, resultsOf(attempts));
    return attempts.map(() => undefined);
  });
