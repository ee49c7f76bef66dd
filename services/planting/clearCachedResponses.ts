import type { CommonQueryMethods } from "slonik";
import {
  deleteCachedResponses,
  deleteExpiredResponses,
  summaryKey,
  treeKey,
} from "../../db/planting/cachedResponses.ts";
import type { Clock } from "../../domain/clock.ts";

/** Which cached responses to delete. */
export type CachedResponses =
  | { readonly kind: "tree"; readonly registrationId: string }
  | { readonly kind: "summary" | "all" };

const keysOf = (responses: CachedResponses): readonly string[] | null => {
  switch (responses.kind) {
    case "tree":
      return [treeKey(responses.registrationId)];
    case "summary":
      return [summaryKey(true), summaryKey(false)];
    case "all":
      return null;
  }
};

/**
 * Deletes cached responses, so that the next requests render new ones.
 * @returns the number of deleted responses
 */
export const clearCachedResponses = (
  { db }: { readonly db: CommonQueryMethods },
  responses: CachedResponses,
): Promise<number> => deleteCachedResponses(db, keysOf(responses));

export const clearExpiredResponses = ({
  db,
  clock,
}: {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
}): Promise<void> => deleteExpiredResponses(db, clock.now());
