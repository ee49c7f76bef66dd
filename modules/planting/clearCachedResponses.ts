import type { DatabaseTransactionConnection } from "slonik";
import {
  deleteCachedResponses,
  deleteExpiredResponses,
  deleteSummaries,
  treeKey,
} from "./cachedResponses.sql.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { deleteInOrder } from "../../db/batching/deleteInBatches.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { Context } from "../../runtime/context.ts";

/** Which cached responses to delete. */
export type CachedResponses =
  | { readonly kind: "tree"; readonly registrationId: string }
  | { readonly kind: "summary" | "all" };

const deleteSelected = async (
  transaction: DatabaseTransactionConnection,
  responses: CachedResponses,
): Promise<number> => {
  if (responses.kind === "tree") {
    return deleteCachedResponses(transaction, [treeKey(responses.registrationId)]);
  }
  const summaries = await deleteSummaries(transaction, null);
  return responses.kind === "summary"
    ? summaries
    : summaries + (await deleteCachedResponses(transaction, null));
};

/**
 * Deletes cached responses, so that the next requests render new ones.
 * @returns the number of deleted responses
 */
export const clearCachedResponses = (
  { db, clock, actor }: OperatorContext,
  responses: CachedResponses,
): Promise<number> =>
  db.transaction(async (transaction) => {
    const deleted = await deleteSelected(transaction, responses);
    await recordAction(transaction, actor, clock.now(), {
      action: "evidence.clear_cache",
      details: { ...responses, deleted },
    });
    return deleted;
  });

/**
 * Deletes expired responses in short statements. It may be interrupted and repeated.
 * @returns the number of deleted responses
 */
export const clearExpiredResponses = (
  { db, clock }: Context,
  signal: AbortSignal,
): Promise<number> =>
  deleteInOrder<Date>(
    (limit, from) => deleteExpiredResponses(db, { from, now: clock.now() }, limit),
    signal,
  );
