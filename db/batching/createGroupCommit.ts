import { LRUCache } from "lru-cache";
import { isContentError } from "../databaseErrors.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
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

type Options<Entry, Result> = {
  readonly write: (batch: readonly Entry[]) => Promise<readonly (Result | PromiseLike<Result>)[]>;
  readonly accountOf: (entry: Entry) => string;
  readonly observeBatch?: BatchObserver | undefined;
  readonly maximumWaiting?: number | undefined;
};

class GroupCommitQueues<Entry, Result> implements GroupCommit<Entry, Result> {
  readonly #options: Options<Entry, Result>;
  /** Every account with entries that wait or are being written. */
  readonly #queues = new Map<string, EntryQueue<Entry, Result>>();
  readonly #separateAccounts = new LRUCache<string, true>({
    max: MAXIMUM_SEPARATE,
    ttl: SEPARATE_MS,
  });
  readonly #commonLane = createLane<EntryQueue<Entry, Result>>((turns) =>
    this.#writeNextBatch(turns),
  );
  readonly #separateLane = createLane<EntryQueue<Entry, Result>>((turns) =>
    this.#writeOneAccount(turns, MAXIMUM_SEPARATE_BATCH),
  );
  readonly #jobLane = createLane<EntryQueue<Entry, Result>>((turns) =>
    this.#writeOneAccount(turns, MAXIMUM_BATCH),
  );
  #waitingCount = 0;
  #jobCount = 0;

  constructor(options: Options<Entry, Result>) {
    this.#options = options;
  }

  readonly submit = (entry: Entry): Promise<Result> => {
    const queue = this.#requireQueue(this.#options.accountOf(entry), 1);
    return new Promise((resolve, reject) => {
      queue.waiting.push({ entry, resolve, reject });
      this.#waitingCount += 1;
      queue.lane.add(queue);
    });
  };

  readonly runApart = <Done>(
    accountId: string,
    size: number,
    work: () => Promise<Done>,
  ): Promise<Done> => {
    const queue = this.#requireQueue(accountId, size);
    return new Promise((resolve, reject) => {
      queue.jobs.push({ size, run: () => work().then(resolve, reject) });
      queue.jobSize += size;
      this.#waitingCount += size;
      this.#jobCount += 1;
      queue.lane.add(queue);
    });
  };

  readonly drain = async (): Promise<void> => {
    const lanes = [this.#commonLane, this.#separateLane, this.#jobLane];
    while (lanes.some((lane) => lane.written() !== null)) {
      for (const lane of lanes) {
        await lane.written();
      }
    }
  };

  readonly queueLength = (): number => this.#waitingCount;

  /**
   * Returns the account's queue.
   * @throws DomainError queue_full if `size` more do not fit
   */
  #requireQueue(accountId: string, size: number): EntryQueue<Entry, Result> {
    const known = this.#queues.get(accountId);
    const { maximumWaiting = MAXIMUM_WAITING } = this.#options;
    const free = maximumWaiting - this.#waitingCount;
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
    const queue: EntryQueue<Entry, Result> = {
      accountId,
      waiting: [],
      jobs: [],
      jobSize: 0,
      writing: 0,
      lane: this.#laneOf(accountId),
    };
    this.#queues.set(accountId, queue);
    return queue;
  }

  async #writeNextBatch(turns: Set<EntryQueue<Entry, Result>>): Promise<void> {
    if (this.#jobCount > 0) {
      this.#moveJobs(turns);
    }
    const parts = this.#take(turns, MAXIMUM_BATCH);
    if (parts.length > 0) {
      await this.#writeTogether(parts);
    }
  }

  #take(turns: Set<EntryQueue<Entry, Result>>, maximum: number): readonly Part<Entry, Result>[] {
    const parts = takeInTurn(turns, maximum);
    for (const { taken } of parts) {
      this.#waitingCount -= taken.length;
    }
    return parts;
  }

  #laneOf(accountId: string): Lane<EntryQueue<Entry, Result>> {
    return this.#separateAccounts.has(accountId) ? this.#separateLane : this.#commonLane;
  }

  /** In the common lane no batch is being written when this is called, so none has rows of these accounts. */
  #moveJobs(turns: Set<EntryQueue<Entry, Result>>): void {
    for (const queue of turns) {
      if (queue.jobs.length > 0) {
        turns.delete(queue);
        queue.lane = this.#jobLane;
        this.#jobLane.add(queue);
      }
    }
  }

  /** Tries halves until the entries of one account fail alone. */
  async #writeTogether(parts: readonly Part<Entry, Result>[]): Promise<void> {
    try {
      await this.#writeParts(parts);
    } catch (error) {
      const [first] = parts;
      if (!isContentError(error)) {
        this.#rejectParts(parts, error);
      } else if (parts.length > 1) {
        const middle = Math.ceil(parts.length / 2);
        await this.#writeTogether(parts.slice(0, middle));
        await this.#writeTogether(parts.slice(middle));
      } else if (first) {
        this.#moveToSeparateLane(first);
      }
    }
  }

  #moveToSeparateLane({ queue, taken }: Part<Entry, Result>): void {
    this.#separateAccounts.set(queue.accountId, true);
    this.#commonLane.remove(queue);
    queue.waiting = [...taken, ...queue.waiting];
    queue.writing -= taken.length;
    this.#waitingCount += taken.length;
    queue.lane = this.#separateLane;
    this.#separateLane.add(queue);
  }

  /** Tries halves until a bad entry fails alone. */
  async #writeSeparately(part: Part<Entry, Result>): Promise<void> {
    const { queue, taken } = part;
    try {
      await this.#writeParts([part]);
    } catch (error) {
      if (isContentError(error)) {
        this.#separateAccounts.set(queue.accountId, true);
        if (taken.length > 1) {
          const middle = Math.ceil(taken.length / 2);
          await this.#writeSeparately({ queue, taken: taken.slice(0, middle) });
          await this.#writeSeparately({ queue, taken: taken.slice(middle) });
          return;
        }
      }
      this.#rejectParts([part], error);
    }
  }

  /** Writes entries of the account whose turn it is, and one of its jobs. */
  async #writeOneAccount(turns: Set<EntryQueue<Entry, Result>>, maximum: number): Promise<void> {
    const [queue] = turns;
    if (!queue) {
      return;
    }
    turns.delete(queue);
    for (const part of this.#take(new Set([queue]), maximum)) {
      if (part.taken.length > 0) {
        await this.#writeSeparately(part);
      }
    }
    await this.#runNextJob(queue);
    if (queue.lane === this.#jobLane && queue.jobs.length === 0) {
      this.#jobLane.remove(queue);
      queue.lane = this.#laneOf(queue.accountId);
    }
    if (queue.waiting.length > 0 || queue.jobs.length > 0) {
      queue.lane.add(queue);
    }
  }

  async #runNextJob(queue: EntryQueue<Entry, Result>): Promise<void> {
    const job = queue.jobs.shift();
    if (!job) {
      return;
    }
    this.#jobCount -= 1;
    queue.jobSize -= job.size;
    this.#waitingCount -= job.size;
    queue.writing += 1;
    await job.run();
    this.#settle(queue, 1);
  }

  async #writeParts(parts: readonly Part<Entry, Result>[]): Promise<void> {
    const batch =
      parts.length === 1 && parts[0] ? parts[0].taken : parts.flatMap(({ taken }) => taken);
    const startedAtMs = performance.now();
    const results = await this.#options.write(batch.map(({ entry }) => entry));
    this.#options.observeBatch?.(batch.length, (performance.now() - startedAtMs) / 1000);
    for (const result of results) {
      if (result instanceof Promise) {
        // It may be rejected before its entry awaits it below, and Node ends the process for an unhandled rejection.
        result.catch(() => undefined);
      }
    }
    for (const { queue, taken } of parts) {
      this.#settle(queue, taken.length);
    }
    // The next batch is sent first, so that the database works while this process sends responses.
    setImmediate(() => {
      for (const [index, result] of results.entries()) {
        batch[index]?.resolve(result);
      }
    });
  }

  #rejectParts(parts: readonly Part<Entry, Result>[], error: unknown): void {
    for (const { queue, taken } of parts) {
      this.#settle(queue, taken.length);
      for (const { reject } of taken) {
        reject(error);
      }
    }
  }

  #settle(queue: EntryQueue<Entry, Result>, count: number): void {
    queue.writing -= count;
    if (queue.writing === 0 && queue.waiting.length === 0 && queue.jobs.length === 0) {
      this.#queues.delete(queue.accountId);
    }
  }
}

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
export const createGroupCommit = <Entry, Result>(
  options: Options<Entry, Result>,
): GroupCommit<Entry, Result> => new GroupCommitQueues(options);
