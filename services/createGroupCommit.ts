import { LRUCache } from "lru-cache";
import { isContentError } from "../db/isContentError.ts";
import { DomainError } from "../domain/errors.ts";

export type GroupCommit<Entry, Result> = {
  /**
   * Writes the entry together with the others that wait.
   * @throws DomainError queue_full if too many entries are waiting
   */
  readonly submit: (entry: Entry) => Promise<Result>;
  /** Resolves when all waiting entries have been written. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

/** Called after each batch is written. */
export type BatchObserver = (size: number, durationSeconds: number) => void;

type Waiting<Entry, Result> = {
  readonly entry: Entry;
  readonly resolve: (result: Result | PromiseLike<Result>) => void;
  readonly reject: (reason: unknown) => void;
};

/** Larger batches are no faster per row, and make the first request of a batch wait for the last. */
const MAXIMUM_BATCH = 400;
/** Per lane, some seconds of work: a client that would wait longer should retry later. */
const MAXIMUM_WAITING = 10_000;

/** How long an owner with a rejected entry is written separately, and the maximum number of such owners. */
const SEPARATE_MS = 60_000;
const MAXIMUM_SEPARATE = 10_000;

const nextLoopIteration = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/** @param onRejected called with an entry that the database rejected alone */
const createLane = <Entry, Result>({
  write,
  observeBatch,
  maximumWaiting,
  onRejected,
}: {
  readonly write: (batch: readonly Entry[]) => Promise<readonly (Result | PromiseLike<Result>)[]>;
  readonly observeBatch: BatchObserver | undefined;
  readonly maximumWaiting: number;
  readonly onRejected: (entry: Entry) => void;
}): GroupCommit<Entry, Result> => {
  const waiting: Waiting<Entry, Result>[] = [];
  let writing: Promise<void> | null = null;

  const writeBatch = async (batch: readonly Waiting<Entry, Result>[]): Promise<void> => {
    const startedAtMs = performance.now();
    try {
      const results = await write(batch.map(({ entry }) => entry));
      observeBatch?.(batch.length, (performance.now() - startedAtMs) / 1000);
      // The next batch is sent first, so that the database works while this process sends responses.
      setImmediate(() => {
        for (const [index, result] of results.entries()) {
          batch[index]?.resolve(result);
        }
      });
    } catch (error) {
      const isRejected = isContentError(error);
      if (isRejected && batch.length > 1) {
        const middle = Math.ceil(batch.length / 2);
        await writeBatch(batch.slice(0, middle));
        await writeBatch(batch.slice(middle));
        return;
      }
      for (const { entry, reject } of batch) {
        if (isRejected) {
          onRejected(entry);
        }
        reject(error);
      }
    }
  };

  const writeAll = async (): Promise<void> => {
    // Requests that this iteration of the event loop still reads join the first batch.
    await nextLoopIteration();
    while (waiting.length > 0) {
      await writeBatch(waiting.splice(0, MAXIMUM_BATCH));
      if (waiting.length === 0) {
        // Requests that arrive while the last responses are sent are written as well.
        await nextLoopIteration();
      }
    }
    writing = null;
  };

  return {
    submit: (entry) => {
      if (waiting.length >= maximumWaiting) {
        throw new DomainError("queue_full", "too many registrations are waiting, try again");
      }
      return new Promise<Result>((resolve, reject) => {
        waiting.push({ entry, resolve, reject });
        writing ??= writeAll();
      });
    },
    drain: async () => {
      await writing;
    },
    queueLength: () => waiting.length,
  };
};

/**
 * Writes entries that wait at the same time in one transaction, since row-at-a-time writes are slow on a busy account's
 * counter row. One batch is written at a time, while the next one collects. If the database rejects a batch, its halves
 * are tried, until a bad entry fails alone. The entries of its owner then use a second lane with its own queue for a
 * minute, because an owner at its limit has every later entry rejected.
 * @param write writes a batch, all or nothing, and returns the entries' results in order. A result that is a promise
 *   does not delay the others
 */
export const createGroupCommit = <Entry, Result>({
  write,
  ownerOf,
  observeBatch,
  maximumWaiting = MAXIMUM_WAITING,
}: {
  readonly write: (batch: readonly Entry[]) => Promise<readonly (Result | PromiseLike<Result>)[]>;
  readonly ownerOf: (entry: Entry) => string;
  readonly observeBatch?: BatchObserver | undefined;
  readonly maximumWaiting?: number | undefined;
}): GroupCommit<Entry, Result> => {
  const separate = new LRUCache<string, true>({ max: MAXIMUM_SEPARATE, ttl: SEPARATE_MS });
  const onRejected = (entry: Entry): void => {
    separate.set(ownerOf(entry), true);
  };
  const lane = { write, observeBatch, maximumWaiting, onRejected };
  const commonLane = createLane(lane);
  const separateLane = createLane(lane);
  return {
    submit: (entry) => (separate.has(ownerOf(entry)) ? separateLane : commonLane).submit(entry),
    drain: async () => {
      await Promise.all([commonLane.drain(), separateLane.drain()]);
    },
    queueLength: () => commonLane.queueLength() + separateLane.queueLength(),
  };
};
