import { LRUCache } from "lru-cache";
import { isContentError } from "../db/isContentError.ts";
import { DomainError } from "../domain/errors.ts";

export type GroupCommit<Entry, Answer> = {
  /**
   * Writes the entry together with what else is waiting.
   * @throws DomainError queue_full when more is waiting than the database keeps up with
   */
  readonly submit: (entry: Entry) => Promise<Answer>;
  /** Resolves when all that was waiting has been written and answered. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

/** Told of every batch that was written. */
export type BatchObserver = (size: number, durationSeconds: number) => void;

type Waiting<Entry, Answer> = {
  readonly entry: Entry;
  readonly resolve: (answer: Answer | PromiseLike<Answer>) => void;
  readonly reject: (reason: unknown) => void;
};

/** Larger batches gain nothing more per row, and make the first request of a batch wait for the last. */
const MAXIMUM_BATCH = 400;
/** Of a lane, some seconds of work: a client that waits longer is better told to come back. */
const MAXIMUM_WAITING = 10_000;

/** How long an owner of whom something was refused is kept apart from the others, and how many such are known. */
const APART_MS = 60_000;
const MAXIMUM_APART = 10_000;

const endOfTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/** @param onRefused is told of an entry that failed alone */
const createLane = <Entry, Answer>({
  write,
  observeBatch,
  maximumWaiting,
  onRefused,
}: {
  readonly write: (batch: readonly Entry[]) => Promise<readonly (Answer | PromiseLike<Answer>)[]>;
  readonly observeBatch: BatchObserver | undefined;
  readonly maximumWaiting: number;
  readonly onRefused: (entry: Entry) => void;
}): GroupCommit<Entry, Answer> => {
  const waiting: Waiting<Entry, Answer>[] = [];
  let writing: Promise<void> | null = null;

  const writeBatch = async (batch: readonly Waiting<Entry, Answer>[]): Promise<void> => {
    const startedAtMs = performance.now();
    try {
      const answers = await write(batch.map(({ entry }) => entry));
      observeBatch?.(batch.length, (performance.now() - startedAtMs) / 1000);
      // The next batch goes out first: the database works on it while this process sends these answers.
      setImmediate(() => {
        for (const [index, answer] of answers.entries()) {
          batch[index]?.resolve(answer);
        }
      });
    } catch (error) {
      const isRefused = isContentError(error);
      if (isRefused && batch.length > 1) {
        const middle = Math.ceil(batch.length / 2);
        await writeBatch(batch.slice(0, middle));
        await writeBatch(batch.slice(middle));
        return;
      }
      for (const { entry, reject } of batch) {
        if (isRefused) {
          onRefused(entry);
        }
        reject(error);
      }
    }
  };

  const writeAll = async (): Promise<void> => {
    // What else this turn of the event loop reads from its sockets joins the first batch.
    await endOfTurn();
    while (waiting.length > 0) {
      await writeBatch(waiting.splice(0, MAXIMUM_BATCH));
      if (waiting.length === 0) {
        // The last answers go out; what arrives with that is written as well.
        await endOfTurn();
      }
    }
    writing = null;
  };

  return {
    submit: (entry) => {
      if (waiting.length >= maximumWaiting) {
        throw new DomainError("queue_full", "too many registrations are waiting, try again");
      }
      return new Promise<Answer>((resolve, reject) => {
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
 * Requests that wait at the same time share one transaction, since row-at-a-time writes collapse on a busy account's
 * counter row. One batch is under way at a time; the next one gathers meanwhile. An entry that the database refuses
 * fails alone: its batch is written again in halves. For a while its owner's entries are then written apart from
 * everybody else's, in a second lane with batches and a queue of its own, since whose total is full has all that follows
 * refused.
 * @param write writes a batch, all or nothing, and tells each entry's answer, in order; what it leaves as a promise
 *   holds up nobody else
 */
export const createGroupCommit = <Entry, Answer>({
  write,
  ownerOf,
  observeBatch,
  maximumWaiting = MAXIMUM_WAITING,
}: {
  readonly write: (batch: readonly Entry[]) => Promise<readonly (Answer | PromiseLike<Answer>)[]>;
  readonly ownerOf: (entry: Entry) => string;
  readonly observeBatch?: BatchObserver | undefined;
  readonly maximumWaiting?: number | undefined;
}): GroupCommit<Entry, Answer> => {
  const apart = new LRUCache<string, true>({ max: MAXIMUM_APART, ttl: APART_MS });
  const onRefused = (entry: Entry): void => {
    apart.set(ownerOf(entry), true);
  };
  const lane = { write, observeBatch, maximumWaiting, onRefused };
  const common = createLane(lane);
  const suspect = createLane(lane);
  return {
    submit: (entry) => (apart.has(ownerOf(entry)) ? suspect : common).submit(entry),
    drain: async () => {
      await Promise.all([common.drain(), suspect.drain()]);
    },
    queueLength: () => common.queueLength() + suspect.queueLength(),
  };
};
