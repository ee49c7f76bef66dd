import type { Tracing } from "../../runtime/tracing.rules.ts";
import { createGroupCommit } from "./createGroupCommit.ts";
import type { LOCKED } from "./createGroupCommit.ts";
import { submitTraced, traceBatches, traceJob } from "./traceBatches.ts";
import type { TracedEntry } from "./traceBatches.ts";

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
export const createRequestWriter = <
  Entry extends TracedEntry & { readonly accountId: string },
  Result,
>(
  tracing: Tracing | undefined,
  write: (
    entries: readonly Entry[],
    options: { readonly isAlone: boolean },
  ) => Promise<readonly (Result | typeof LOCKED)[]>,
): RequestWriter<Entry, Result> => {
  const queue = createGroupCommit<Entry, Result>({
    write: tracing === undefined ? write : traceBatches(tracing, write),
    accountOf: ({ accountId }) => accountId,
    maximumBatch: MAXIMUM_BATCH,
  });
  return async (entries, writeTogether) => {
    const [first] = entries;
    if (!first) {
      return [];
    }
    const size = entries.length;
    if (size === 1) {
      return [await submitTraced(tracing, queue.submit, first)];
    }
    const job = tracing === undefined ? writeTogether : traceJob(tracing, size, writeTogether);
    return queue.runAlone(first.accountId, size, job);
  };
};
