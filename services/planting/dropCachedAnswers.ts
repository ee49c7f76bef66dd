import type { CommonQueryMethods } from "slonik";
import {
  deleteCachedAnswers,
  deleteExpiredAnswers,
  SUMMARY_KEY,
  treeKey,
} from "../../db/planting/cachedAnswers.ts";
import type { Clock } from "../../domain/clock.ts";

/** Which of the answers that are kept for all processes. */
export type CachedAnswers =
  | { readonly kind: "tree"; readonly registrationId: string }
  | { readonly kind: "summary" | "all" };

const keyOf = (answers: CachedAnswers): string | null => {
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
export const dropCachedAnswers = (
  { db }: { readonly db: CommonQueryMethods },
  answers: CachedAnswers,
): Promise<number> => deleteCachedAnswers(db, keyOf(answers));

/** Drops the answers that nobody gets any more. */
export const dropExpiredAnswers = ({
  db,
  clock,
}: {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
}): Promise<void> => deleteExpiredAnswers(db, clock.now());
