import { LRUCache } from "lru-cache";
import { isContentError } from "../../db/isContentError.ts";
import { DomainError } from "../../domain/errors.ts";
import { createLane } from "./createLane.ts";
import type { Lane } from "./createLane.ts";

export type GroupCommit<Entry, Result> = {
  /**
   * Writes the entry together with the others that wait.
   * @throws DomainError queue_full if too many entries are waiting, of the account or of all
   */
  readonly submit: (entry: Entry) => Promise<Result>;
  /**
   * Runs a write of many rows of one account in its turn. Meanwhile no entry of the account is written, so that no batch
   * waits for the rows that the write locks.
   * @param size how many places of the queue the write takes
   * @throws DomainError queue_full, and what `work` throws
   */
  readonly runApart: <Done>(
    accountId: string,
    size: number,
    work: () => Promise<Done>,
  ) => Promise<Done>;
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

/** A write of many rows. It settles its own promise and never throws. */
type Job = { readonly size: number; readonly run: () => Promise<void> };

/** The entries of one account, in their order of arrival, and its writes of many rows. */
type EntryQueue<Entry, Result> = {
  readonly accountId: string;
  waiting: Waiting<Entry, Result>[];
  readonly jobs: Job[];
  /** The sum of the sizes of the jobs that wait. */
  jobSize: number;
  /** How many of its entries and jobs are being written. */
  writing: number;
  lane: Lane<EntryQueue<Entry, Result>>;
};

/** The entries of one account in a batch. */
type Part<Entry, Result> = {
  readonly queue: EntryQueue<Entry, Result>;
  readonly taken: Waiting<Entry, Result>[];
};

/** Larger batches are no faster per row, and make the first request of a batch wait for the last. */
const MAXIMUM_BATCH = 400;
/** Smaller, because each rejected entry costs up to two transactions, and other separate accounts wait for them. */
const MAXIMUM_SEPARATE_BATCH = 50;
/** More than the requests and the items of batches that run at the same time, so that only a full process is full. */
const MAXIMUM_WAITING = 30_000;

/** How long an account with a rejected entry is written separately, and the maximum number of such accounts. */
const SEPARATE_MS = 60_000;
const MAXIMUM_SEPARATE = 10_000;

/**
 * Takes up to `maximum` entries from the accounts in turn, the same number from each as far as they have them. Accounts
 * that have more go to the end.
 */
const takeInTurn = <Entry, Result>(
  turns: Set<EntryQueue<Entry, Result>>,
  maximum: number,
): readonly Part<Entry, Result>[] => {
  const parts = new Map<EntryQueue<Entry, Result>, Part<Entry, Result>>();
  let room = maximum;
  while (room > 0 && turns.size > 0) {
    const share = Math.max(1, Math.floor(room / turns.size));
    let unvisited = turns.size;
    for (const queue of turns) {
      if (unvisited === 0 || room === 0) {
        break;
      }
      unvisited -= 1;
      const taken = queue.waiting.splice(0, Math.min(share, room));
      room -= taken.length;
      queue.writing += taken.length;
      turns.delete(queue);
      if (queue.waiting.length > 0) {
        turns.add(queue);
      }
      const part = parts.get(queue);
      if (part) {
        part.taken.push(...taken);
      } else {
        parts.set(queue, { queue, taken });
      }
    }
  }
  return [...parts.values()];
};

/**
 * Writes entries that wait at the same time in one transaction, since row-at-a-time writes are slow on a busy account's
 * counter row. One batch is written at a time, while the next one collects.
 *
 * Accounts take turns: each batch has the same number of entries of every account that waits, as far as it has them. An
 * account may have as many entries waiting as there are free places, so one account alone fills half of the queue, and
 * the entries of others are still accepted. The entries of one account are written in their order of arrival.
 *
 * If the database rejects a batch, its halves are tried, but the entries of one account stay together. So the account
 * that is at fault is found, and its entries are written apart for a minute, by themselves and in their order, where
 * halves are tried until a bad entry fails alone.
 *
 * While an account has jobs, its entries are written apart as well, in turn with them.
 * @param write writes a batch and returns the entries' results in order; if it throws, nothing was written. A result that
 *   is a promise does not delay the others
 */
export const createGroupCommit = <Entry, Result>({
  write,
  accountOf,
  observeBatch,
  maximumWaiting = MAXIMUM_WAITING,
}: {
  readonly write: (batch: readonly Entry[]) => Promise<readonly (Result | PromiseLike<Result>)[]>;
  readonly accountOf: (entry: Entry) => string;
  readonly observeBatch?: BatchObserver | undefined;
  readonly maximumWaiting?: number | undefined;
}): GroupCommit<Entry, Result> => {
  type Queue = EntryQueue<Entry, Result>;
  /** Every account with entries that wait or are being written. */
  const queues = new Map<string, Queue>();
  const separateAccounts = new LRUCache<string, true>({ max: MAXIMUM_SEPARATE, ttl: SEPARATE_MS });
  let waitingCount = 0;
  let jobCount = 0;

  const settle = (queue: Queue, count: number): void => {
    queue.writing -= count;
    if (queue.writing === 0 && queue.waiting.length === 0 && queue.jobs.length === 0) {
      queues.delete(queue.accountId);
    }
  };

  const writeParts = async (parts: readonly Part<Entry, Result>[]): Promise<void> => {
    const batch =
      parts.length === 1 && parts[0] ? parts[0].taken : parts.flatMap(({ taken }) => taken);
    const startedAtMs = performance.now();
    const results = await write(batch.map(({ entry }) => entry));
    observeBatch?.(batch.length, (performance.now() - startedAtMs) / 1000);
    for (const result of results) {
      if (result instanceof Promise) {
        // It may be rejected before its entry awaits it below, and Node ends the process for an unhandled rejection.
        result.catch(() => undefined);
      }
    }
    for (const { queue, taken } of parts) {
      settle(queue, taken.length);
    }
    // The next batch is sent first, so that the database works while this process sends responses.
    setImmediate(() => {
      for (const [index, result] of results.entries()) {
        batch[index]?.resolve(result);
      }
    });
  };

  const rejectParts = (parts: readonly Part<Entry, Result>[], error: unknown): void => {
    for (const { queue, taken } of parts) {
      settle(queue, taken.length);
      for (const { reject } of taken) {
        reject(error);
      }
    }
  };

  /** Tries halves until a bad entry fails alone. */
  const writeSeparately = async ({ queue, taken }: Part<Entry, Result>): Promise<void> => {
    const part = { queue, taken };
    try {
      await writeParts([part]);
    } catch (error) {
      if (isContentError(error)) {
        separateAccounts.set(queue.accountId, true);
        if (taken.length > 1) {
          const middle = Math.ceil(taken.length / 2);
          await writeSeparately({ queue, taken: taken.slice(0, middle) });
          await writeSeparately({ queue, taken: taken.slice(middle) });
          return;
        }
      }
      rejectParts([part], error);
    }
  };

  const runNextJob = async (queue: Queue): Promise<void> => {
    const job = queue.jobs.shift();
    if (!job) {
      return;
    }
    jobCount -= 1;
    queue.jobSize -= job.size;
    waitingCount -= job.size;
    queue.writing += 1;
    await job.run();
    settle(queue, 1);
  };

  /** Writes entries of the account whose turn it is, and one of its jobs. */
  const writeOneAccount = async (turns: Set<Queue>, maximum: number): Promise<void> => {
    const [queue] = turns;
    if (!queue) {
      return;
    }
    turns.delete(queue);
    for (const part of takeInTurn(new Set([queue]), maximum)) {
      waitingCount -= part.taken.length;
      if (part.taken.length > 0) {
        await writeSeparately(part);
      }
    }
    await runNextJob(queue);
    if (queue.lane === jobLane && queue.jobs.length === 0) {
      jobLane.remove(queue);
      queue.lane = laneOf(queue.accountId);
    }
    if (queue.waiting.length > 0 || queue.jobs.length > 0) {
      queue.lane.add(queue);
    }
  };

  const separateLane = createLane<Queue>((turns) => writeOneAccount(turns, MAXIMUM_SEPARATE_BATCH));

  const jobLane = createLane<Queue>((turns) => writeOneAccount(turns, MAXIMUM_BATCH));

  const moveToSeparateLane = ({ queue, taken }: Part<Entry, Result>): void => {
    separateAccounts.set(queue.accountId, true);
    commonLane.remove(queue);
    queue.waiting = [...taken, ...queue.waiting];
    queue.writing -= taken.length;
    waitingCount += taken.length;
    queue.lane = separateLane;
    separateLane.add(queue);
  };

  /** Tries halves until the entries of one account fail alone. */
  const writeTogether = async (parts: readonly Part<Entry, Result>[]): Promise<void> => {
    try {
      await writeParts(parts);
    } catch (error) {
      const [first] = parts;
      if (!isContentError(error)) {
        rejectParts(parts, error);
      } else if (parts.length > 1) {
        const middle = Math.ceil(parts.length / 2);
        await writeTogether(parts.slice(0, middle));
        await writeTogether(parts.slice(middle));
      } else if (first) {
        moveToSeparateLane(first);
      }
    }
  };

  /** In the common lane no batch is being written when this is called, so none has rows of these accounts. */
  const moveJobs = (turns: Set<Queue>): void => {
    for (const queue of turns) {
      if (queue.jobs.length > 0) {
        turns.delete(queue);
        queue.lane = jobLane;
        jobLane.add(queue);
      }
    }
  };

  const commonLane = createLane<Queue>(async (turns) => {
    if (jobCount > 0) {
      moveJobs(turns);
    }
    const parts = takeInTurn(turns, MAXIMUM_BATCH);
    for (const { taken } of parts) {
      waitingCount -= taken.length;
    }
    if (parts.length > 0) {
      await writeTogether(parts);
    }
  });

  const laneOf = (accountId: string): Lane<Queue> =>
    separateAccounts.has(accountId) ? separateLane : commonLane;

  /**
   * Returns the account's queue.
   * @throws DomainError queue_full if `size` more do not fit
   */
  const requireQueue = (accountId: string, size: number): Queue => {
    const known = queues.get(accountId);
    const free = maximumWaiting - waitingCount;
    const own = known ? known.waiting.length + known.jobSize : 0;
    if (own + size > free) {
      throw new DomainError(
        "queue_full",
        free < size
          ? "too many registrations are waiting, try again"
          : "too many registrations of this account are waiting, try again",
      );
    }
    if (known) {
      return known;
    }
    const queue: Queue = {
      accountId,
      waiting: [],
      jobs: [],
      jobSize: 0,
      writing: 0,
      lane: laneOf(accountId),
    };
    queues.set(accountId, queue);
    return queue;
  };

  return {
    submit: (entry) => {
      const queue = requireQueue(accountOf(entry), 1);
      return new Promise<Result>((resolve, reject) => {
        queue.waiting.push({ entry, resolve, reject });
        waitingCount += 1;
        queue.lane.add(queue);
      });
    },
    runApart: <Done>(accountId: string, size: number, work: () => Promise<Done>) => {
      const queue = requireQueue(accountId, size);
      return new Promise<Done>((resolve, reject) => {
        queue.jobs.push({ size, run: () => work().then(resolve, reject) });
        queue.jobSize += size;
        waitingCount += size;
        jobCount += 1;
        queue.lane.add(queue);
      });
    },
    drain: async () => {
      const lanes = [commonLane, separateLane, jobLane];
      while (lanes.some((lane) => lane.written() !== null)) {
        for (const lane of lanes) {
          await lane.written();
        }
      }
    },
    queueLength: () => waitingCount,
  };
};
