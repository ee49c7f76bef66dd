import type { CommonQueryMethods } from "slonik";
import {
  deleteCachedResponses,
  deleteExpiredResponses,
  SUMMARY_KEY,
  treeKey,
} from "../../db/planting/cachedResponses.ts";
import type { Clock } from "../../domain/clock.ts";

/** Which of the answers that are kept for all processes. */
export type CachedResponses =
  | { readonly kind: "tree"; readonly registrationId: string }
  | { readonly kind: "summary" | "all" };

const keyOf = (answers: CachedResponses): string | null => {
  switch (answers.kind) {
    case "tree":
      return treeKey(answers.registrationId);
    case "summary":
      return SUMMARY_KEY;
    case "all":
      return null;
  }
};

/**
 * Drops kept answers, so that the next reader gets new ones.
 * @returns how many there were
 */
export const clearCachedResponses = (
  { db }: { readonly db: CommonQueryMethods },
  answers: CachedResponses,
): Promise<number> => deleteCachedResponses(db, keyOf(answers));

/** Drops the answers that nobody gets any more. */
export const clearExpiredResponses = ({
  db,
  clock,
}: {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
}): Promise<void> => deleteExpiredResponses(db, clock.now());
