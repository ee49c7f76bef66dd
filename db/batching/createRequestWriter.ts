import { createGroupCommit } from "./createGroupCommit.ts";
import type { LOCKED } from "./createGroupCommit.ts";

/**
 * Writes the entries of a request, all of one account: one together with those of other requests that wait, several by
 * `writeTogether`.
 * @throws DomainError queue_full, and what the writes throw
 */
export type RequestWriter<Entry, Result> = (
  entries: readonly Entry[],
  writeTogether: () => Promise<readonly Result[]>,
) => Promise<readonly Result[]>;

/** Such entries are large or take long, and the first one of a batch waits for the last. */
const MAXIMUM_BATCH = 100;

/** Creates a writer of requests by group commit. */
export const createRequestWriter = <Entry extends { readonly accountId: string }, Result>(
  write: (
    entries: readonly Entry[],
    options: { readonly isAlone: boolean },
  ) => Promise<readonly (Result | typeof LOCKED)[]>,
): RequestWriter<Entry, Result> => {
  const queue = createGroupCommit<Entry, Result>({
    write,
    accountOf: ({ accountId }) => accountId,
    maximumBatch: MAXIMUM_BATCH,
  });
  return async (entries, writeTogether) => {
    const [first] = entries;
    if (first === undefined) {
      return [];
    }
    return entries.length === 1
      ? [await queue.submit(first)]
      : queue.runAlone(first.accountId, entries.length, writeTogether);
  };
};
