import { setImmediate as nextLoopIteration, setTimeout as sleep } from "node:timers/promises";
import { context, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import type { Span } from "@opentelemetry/api";
import { LRUCache } from "lru-cache";
import { runForAll } from "../../runtime/client.ts";
import { Gate } from "../../runtime/gate.ts";
import { activeSpan, inSpan } from "../../runtime/tracing.ts";
import { isContentError } from "../databaseErrors.ts";

/** The result of an entry whose account another transaction has locked. The account's entries are then written alone. */
export const LOCKED: unique symbol = Symbol("locked");

type Written<Result> = Result | typeof LOCKED;

type WriteOptions = {
  /** Whether all entries are of one account, and the write may wait for a lock. */
  readonly isAlone: boolean;
};

type Options<Entry, Result> = {
  /** Writes a batch, and returns the entries' results in order; if it throws, nothing was written. */
  readonly write: (
    batch: readonly Entry[],
    options: WriteOptions,
  ) => Promise<readonly Written<Result>[]>;
  readonly accountOf: (entry: Entry) => string;
  readonly observeBatch?: BatchObserver | undefined;
  readonly maximumBatch?: number | undefined;
  /** How long entries are collected before they are written; by default until all requests that have arrived are read. */
  readonly collectMs?: (() => number) | undefined;
  readonly spanName?: string;
};

export type BatchObserver = (size: number, durationSeconds: number) => void;

type Waiting<Entry, Result> = {
  readonly account: Account<Entry, Result>;
  readonly entry: Entry;
  /** The request's span, if its trace is recorded. */
  readonly span: Span | undefined;
  readonly resolve: (result: Result) => void;
  readonly reject: (reason: unknown) => void;
};

/** A write of many rows. It settles its own promise and never throws. */
type Job = { readonly size: number; readonly run: () => Promise<void> };

type Account<Entry, Result> = {
  readonly id: string;
  readonly waiting: (Waiting<Entry, Result> | Job)[];
  /** Whether it is ready to be written, or being written. */
  isScheduled: boolean;
};

/** Larger batches are no faster per row, and make the first request of a batch wait for the last. */
const MAXIMUM_BATCH = 400;
/** Two, so that a long write does not delay all accounts that must be written alone. */
const ALONE_WRITERS = 2;

/** How long an account is written alone after an entry of it was rejected, or another transaction had locked it. */
const REJECTED_MS = 60_000;
const LOCKED_MS = 1000;
const MAXIMUM_APART = 10_000;

const SPAN_NAME = "write batch";

/**
 * Runs the write of a batch in a span. A batch of one request belongs to the request's trace. A batch of several has a
 * separate trace with links to them, and they get links to it: none of them causes it alone.
 */
const inBatchSpan = <Result>(
  name: string,
  batch: readonly { readonly span: Span | undefined }[],
  write: () => Promise<Result>,
): Promise<Result> => {
  const spans = batch.flatMap(({ span }) => span ?? []);
  const [only] = batch.length === 1 ? spans : [];
  const options = {
    parent: only === undefined ? ROOT_CONTEXT : trace.setSpan(ROOT_CONTEXT, only),
    links: only === undefined ? spans : [],
    attributes: { "impact.batch.size": batch.length },
  };
  return inSpan(name, options, (written) => {
    for (const span of options.links) {
      span.addLink({ context: written.spanContext() });
    }
    return write();
  });
};

/**
 * Writes entries that wait at the same time in one transaction, since row-at-a-time writes are slow on a busy account's
 * counter row. One batch is written at a time, while the next one collects.
 *
 * Accounts take turns: each batch has the same number of entries of every account that waits, as far as it has them. What
 * one account submits is written in its order of arrival.
 *
 * What would make others wait or fail is written alone, beside the batches: jobs, and for a while the entries of an account
 * that was locked elsewhere or of which the database has rejected something. If the database rejects a batch, its halves are
 * tried until the account, and then the entry, fails alone.
 */
export class GroupCommit<Entry, Result> {
  readonly #options: Options<Entry, Result>;
  readonly #maximumBatch: number;
  /** Every account of which something waits or is being written. */
  readonly #accounts = new Map<string, Account<Entry, Result>>();
  /** Accounts with entries for the next batch, in the order of their turns. */
  readonly #ready = new Set<Account<Entry, Result>>();
  readonly #apart = new LRUCache<string, true>({
    // With `max`, memory for all entries would be allocated now.
    maxSize: MAXIMUM_APART,
    sizeCalculation: () => 1,
    ttl: REJECTED_MS,
  });
  // What waits is bounded by the requests that the process runs.
  readonly #alone = new Gate({
    places: ALONE_WRITERS,
    maximumWaiting: Infinity,
    maximumWaitMs: Infinity,
  });
  #isWriting = false;
  #drained = Promise.withResolvers<void>();

  constructor(options: Options<Entry, Result>) {
    this.#options = options;
    this.#maximumBatch = options.maximumBatch ?? MAXIMUM_BATCH;
  }

  readonly submit = (entry: Entry): Promise<Result> =>
    new Promise((resolve, reject) => {
      const account = this.#openAccount(this.#options.accountOf(entry));
      this.#add(account, { account, entry, span: activeSpan(), resolve, reject });
    });

  /**
   * Runs a write of many rows of one account after what the account has submitted before. Meanwhile no entry of the account
   * is written, so that no batch waits for the rows that the write locks.
   * @param size how many rows it writes
   */
  readonly runAlone = <Done>(
    accountId: string,
    size: number,
    work: () => Promise<Done>,
  ): Promise<Done> => {
    // The job belongs to the request that submitted it, although it runs in another one's turn.
    const options = { parent: context.active(), attributes: { "impact.batch.size": size } };
    return new Promise((resolve, reject) => {
      const run = (): Promise<void> => inSpan(SPAN_NAME, options, work).then(resolve, reject);
      this.#add(this.#openAccount(accountId), { size, run });
    });
  };

  /** Resolves when all waiting entries and jobs have been written. */
  readonly drain = async (): Promise<void> => {
    while (this.#accounts.size > 0) {
      await this.#drained.promise;
    }
  };

  /** How many rows wait. */
  readonly queueLength = (): number =>
    this.#accounts
      .values()
      .flatMap(({ waiting }) => waiting)
      .reduce((sum, item) => sum + ("run" in item ? item.size : 1), 0);

  #openAccount(id: string): Account<Entry, Result> {
    const account = this.#accounts.get(id) ?? { id, waiting: [], isScheduled: false };
    this.#accounts.set(id, account);
    return account;
  }

  #add(account: Account<Entry, Result>, item: Waiting<Entry, Result> | Job): void {
    account.waiting.push(item);
    this.#schedule(account);
  }

  /** Makes the account ready for its next write, unless it is already. Forgets it if nothing waits. */
  #schedule(account: Account<Entry, Result>): void {
    if (account.isScheduled) {
      return;
    }
    const [first] = account.waiting;
    if (first === undefined) {
      this.#accounts.delete(account.id);
      if (this.#accounts.size === 0) {
        this.#drained.resolve();
        this.#drained = Promise.withResolvers();
      }
      return;
    }
    account.isScheduled = true;
    if ("run" in first || this.#apart.has(account.id)) {
      void runForAll(() => this.#alone.run(account.id, () => this.#writeAlone(account)));
      return;
    }
    this.#ready.add(account);
    if (!this.#isWriting) {
      this.#isWriting = true;
      void runForAll(() => this.#writeReady());
    }
  }

  #release(accounts: Iterable<Account<Entry, Result>>): void {
    for (const account of accounts) {
      account.isScheduled = false;
      this.#schedule(account);
    }
  }

  async #writeReady(): Promise<void> {
    const { collectMs } = this.#options;
    const collect = () => (collectMs ? sleep(collectMs()) : nextLoopIteration());
    await collect();
    while (this.#ready.size > 0) {
      const accounts = [...this.#ready].slice(0, this.#maximumBatch);
      for (const account of accounts) {
        this.#ready.delete(account);
      }
      await this.#write(this.#take(accounts), { isAlone: false });
      this.#release(accounts);
      if (collectMs || this.#ready.size === 0) {
        // Requests that arrive while the last responses are sent are written as well.
        await collect();
      }
    }
    this.#isWriting = false;
  }

  async #writeAlone(account: Account<Entry, Result>): Promise<void> {
    const [first] = account.waiting;
    if (first && "run" in first) {
      account.waiting.shift();
      await first.run();
    } else {
      await this.#write(this.#take([account]), { isAlone: true });
    }
    this.#release([account]);
  }

  /** Takes the entries of a batch: the same number of each account, as far as it has them before its next job. */
  #take(accounts: readonly Account<Entry, Result>[]): readonly Waiting<Entry, Result>[] {
    const batch: Waiting<Entry, Result>[] = [];
    let unfinished = accounts;
    for (let index = 0; unfinished.length > 0 && batch.length < this.#maximumBatch; index += 1) {
      unfinished = unfinished.filter(({ waiting }) => {
        const item = waiting[index];
        const isTaken = item !== undefined && !("run" in item) && batch.length < this.#maximumBatch;
        if (isTaken) {
          batch.push(item);
        }
        return isTaken;
      });
    }
    for (const [account, taken] of Map.groupBy(batch, (waiting) => waiting.account)) {
      account.waiting.splice(0, taken.length);
    }
    return batch;
  }

  #putBack(entries: readonly Waiting<Entry, Result>[]): void {
    for (const waiting of entries.toReversed()) {
      waiting.account.waiting.unshift(waiting);
    }
  }

  async #write(batch: readonly Waiting<Entry, Result>[], options: WriteOptions): Promise<void> {
    const startedAtMs = performance.now();
    let results: readonly Written<Result>[];
    try {
      const { write, spanName = SPAN_NAME } = this.#options;
      const entries = batch.map(({ entry }) => entry);
      results = await inBatchSpan(spanName, batch, () => write(entries, options));
    } catch (error) {
      await this.#divide(batch, options, error);
      return;
    }
    this.#options.observeBatch?.(batch.length, (performance.now() - startedAtMs) / 1000);
    const locked = batch.filter((_, index) => results[index] === LOCKED);
    for (const { account } of locked) {
      this.#apart.set(account.id, true, { ttl: LOCKED_MS });
    }
    this.#putBack(locked);
    // The next batch is sent first, so that the database works while this process sends responses.
    setImmediate(() => {
      for (const [index, result] of results.entries()) {
        if (result !== LOCKED) {
          batch[index]?.resolve(result);
        }
      }
    });
  }

  /**
   * Writes the halves of what could not be written because of its content: of the accounts, and then of the entries of one
   * account, which is written alone from then on. Rejects what cannot be divided.
   */
  async #divide(
    batch: readonly Waiting<Entry, Result>[],
    options: WriteOptions,
    error: unknown,
  ): Promise<void> {
    const accounts = [...Map.groupBy(batch, ({ account }) => account)];
    const [[only] = []] = accounts.length === 1 ? accounts : [];
    const isOfContent = isContentError(error);
    if (isOfContent && only) {
      this.#apart.set(only.id, true);
    }
    if (!isOfContent || batch.length <= 1) {
      for (const { reject } of batch) {
        reject(error);
      }
    } else if (only && !options.isAlone) {
      this.#putBack(batch);
    } else {
      const parts = only ? batch.map((entry) => [entry]) : accounts.map(([, entries]) => entries);
      const middle = Math.ceil(parts.length / 2);
      await this.#write(parts.slice(0, middle).flat(), options);
      await this.#write(parts.slice(middle).flat(), options);
    }
  }
}
