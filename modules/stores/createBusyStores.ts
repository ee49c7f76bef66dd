import { Gate } from "../../runtime/gate.ts";
import { isContentError } from "../../db/databaseErrors.ts";
import { isLockTimeout } from "./balances.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";

/** The writes of stores whose balance another transaction has locked. */
export type BusyStores<Write, Result> = {
  /**
   * Writes as soon as the balance is free.
   * @throws DomainError queue_full if it stays locked
   */
  readonly write: (accountId: string, write: Write) => Promise<Result>;
  /** Resolves when all waiting writes are done. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

type Waiting<Write, Result> = {
  readonly write: Write;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
};

/** Each waits for one lock at a time, however many stores are busy. */
const CONNECTIONS = 2;
/** After it the connection serves another store. PostgreSQL grants locks in the order in which they are requested. */
const LOCK_WAIT_MS = 250;
const MAXIMUM_BATCH = 400;
/** A refund of 10,000 records takes some seconds. */
const MAXIMUM_WAIT_MS = 30_000;

const isOverload = (error: unknown): boolean =>
  error instanceof DomainError && error.code === "queue_full";

const tooBusy = (): DomainError =>
  new DomainError("queue_full", "another write of this store is taking too long, try again");

/**
 * Creates the queues of busy stores. A store's writes wait together, and use a connection only while they are tried, so
 * the writes of other stores never wait for them.
 * @param writeStore writes a batch of one store, all or nothing, and waits at most that long for a lock
 */
export const createBusyStores = <Write, Result>(
  writeStore: (
    accountId: string,
    writes: readonly Write[],
    lockWaitMs: number,
  ) => Promise<readonly Result[]>,
  { lockWaitMs = LOCK_WAIT_MS, maximumWaitMs = MAXIMUM_WAIT_MS } = {},
): BusyStores<Write, Result> => {
  const queues = new Map<string, Waiting<Write, Result>[]>();
  const running = new Set<Promise<void>>();
  // A turn takes little longer than the wait for a lock, so only very many busy stores reach this limit.
  const gate = new Gate({ places: CONNECTIONS, maximumWaitMs });

  /**
   * Tries to write the batch.
   * @returns `done` if each write has its result or error; otherwise nothing was written: its lock was not granted, or the
   *   batch must be divided
   */
  const tryBatch = async (
    accountId: string,
    batch: readonly Waiting<Write, Result>[],
  ): Promise<"done" | "locked" | "divide"> => {
    try {
      const writes = batch.map(({ write }) => write);
      const results = await gate.run(accountId, () => writeStore(accountId, writes, lockWaitMs));
      for (const [index, result] of results.entries()) {
        batch[index]?.resolve(result);
      }
    } catch (error) {
      if (isLockTimeout(error)) {
        return "locked";
      }
      if (isContentError(error) && batch.length > 1 && !isOverload(error)) {
        return "divide";
      }
      for (const { reject } of batch) {
        reject(error);
      }
    }
    return "done";
  };

  /** Writes what waits for one store until nothing does. */
  const writeAll = async (accountId: string, queue: Waiting<Write, Result>[]): Promise<void> => {
    let waitingSinceMs = performance.now();
    /** How many of the first writes are written one by one, because the database rejects one of them. */
    let separate = 0;
    while (queue.length > 0) {
      const batch = queue.slice(0, separate > 0 ? 1 : MAXIMUM_BATCH);
      const outcome = await tryBatch(accountId, batch);
      if (outcome === "divide") {
        separate = batch.length;
      } else if (outcome === "done") {
        queue.splice(0, batch.length);
        separate = Math.max(0, separate - 1);
        waitingSinceMs = performance.now();
      } else if (performance.now() - waitingSinceMs > maximumWaitMs) {
        for (const { reject } of queue.splice(0)) {
          reject(tooBusy());
        }
      }
    }
    queues.delete(accountId);
  };

  return {
    write: (accountId, write) =>
      new Promise((resolve, reject) => {
        const known = queues.get(accountId);
        if (known) {
          known.push({ write, resolve, reject });
          return;
        }
        const queue = [{ write, resolve, reject }];
        queues.set(accountId, queue);
        const work = writeAll(accountId, queue).finally(() => running.delete(work));
        running.add(work);
      }),
    drain: async () => {
      await Promise.all(running);
    },
    queueLength: () => [...queues.values()].reduce((sum, { length }) => sum + length, 0),
  };
};
