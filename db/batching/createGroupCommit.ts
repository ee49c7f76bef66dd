import { LRUCache } from "lru-cache";
import { isContentError } from "../databaseErrors.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { activeSpan, inSpan } from "../../runtime/tracing.ts";
import { createLane } from "./createLane.ts";
import { context, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import type { Span } from "@opentelemetry/api";

/** The result of an entry whose account another transaction has locked. The entry is written again, alone. */
export const LOCKED: unique symbol = Symbol("locked");

type Written<Result> = Result | typeof LOCKED;

type Options<Entry, Result> = {
  /**
   * Writes a batch, and returns the entries' results in order; if it throws, nothing was written.
   * @param options.isAlone whether all entries are of one account, and the write may wait for a lock
   */
  readonly write: (
    batch: readonly Entry[],
    options: { readonly isAlone: boolean },
  ) => Promise<readonly Written<Result>[]>;
  readonly accountOf: (entry: Entry) => string;
  readonly observeBatch?: BatchObserver | undefined;
  readonly maximumWaiting?: number | undefined;
  /** The most entries of a batch. */
  readonly maximumBatch?: number | undefined;
};

/** Called after each batch is written. */
export type BatchObserver = (size: number, durationSeconds: number) => void;

export type GroupCommit<Entry, Result> = {
  /**
   * Writes the entry together with the others that wait.
   * @throws DomainError queue_full if too many entries are waiting, of the account or of all
   */
  readonly submit: (entry: Entry) => Promise<Result>;
  /**
   * Runs a write of many rows of one account after what the account has submitted before. Meanwhile no entry of the account
   * is written, so that no batch waits for the rows that the write locks.
   * @param size how many places of the queue the write takes
   * @throws DomainError queue_full, and what `work` throws
   */
  readonly runAlone: <Done>(
    accountId: string,
    size: number,
    work: () => Promise<Done>,
  ) => Promise<Done>;
  /** Resolves when all waiting entries and jobs have been written. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

type Waiting<Entry, Result> = {
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
  /** In the order of arrival. */
  readonly waiting: (Waiting<Entry, Result> | Job)[];
  /** The places of the queue that it takes. */
  size: number;
  /** Whether it is ready to be written, or being written. */
  isScheduled: boolean;
  isLocked: boolean;
  /** The most entries of it in a batch that is written alone. */
  aloneLimit: number;
};

/** The entries of one account in a batch. */
type Part<Entry, Result> = {
  readonly account: Account<Entry, Result>;
  entries: readonly Waiting<Entry, Result>[];
};

/** Larger batches are no faster per row, and make the first request of a batch wait for the last. */
const MAXIMUM_BATCH = 400;
/** More than the requests and the items of batches that run at the same time, so that only a full process is full. */
const MAXIMUM_WAITING = 30_000;
/** Two, so that a long write does not delay all accounts that must be written alone. */
const ALONE_WRITERS = 2;

/** How long an account with a rejected entry is written alone, and the maximum number of such accounts. */
const REJECTED_MS = 60_000;
const MAXIMUM_REJECTED = 10_000;

/**
 * Runs the write of a batch in a span. A batch of one request belongs to the request's trace. A batch of several has a
 * separate trace with links to them, and they get links to it: none of them causes it alone.
 */
const inBatchSpan = <Result>(
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
  return inSpan("write batch", options, (written) => {
    if (only === undefined) {
      for (const span of spans) {
        span.addLink({ context: written.spanContext() });
      }
    }
    return write();
  });
};

class GroupCommitQueue<Entry, Result> implements GroupCommit<Entry, Result> {
  readonly #options: Options<Entry, Result>;
  readonly #maximumBatch: number;
  /** Every account of which something waits or is being written. */
  readonly #accounts = new Map<string, Account<Entry, Result>>();
  readonly #rejected = new LRUCache<string, true>({ max: MAXIMUM_REJECTED, ttl: REJECTED_MS });
  readonly #together = createLane<Account<Entry, Result>>(1, (ready) => this.#writeBatch(ready));
  readonly #alone = createLane<Account<Entry, Result>>(ALONE_WRITERS, (ready) =>
    this.#writeAccount(ready),
  );
  #waitingCount = 0;
  #drained = Promise.withResolvers<void>();

  constructor(options: Options<Entry, Result>) {
    this.#options = options;
    this.#maximumBatch = options.maximumBatch ?? MAXIMUM_BATCH;
  }

  readonly submit = (entry: Entry): Promise<Result> => {
    const account = this.#requirePlaces(this.#options.accountOf(entry), 1);
    return new Promise((resolve, reject) => {
      account.waiting.push({ entry, span: activeSpan(), resolve, reject });
      this.#schedule(account);
    });
  };

  readonly runAlone = <Done>(
    accountId: string,
    size: number,
    work: () => Promise<Done>,
  ): Promise<Done> => {
    const account = this.#requirePlaces(accountId, size);
    // The job belongs to the request that submitted it, although it runs in another one's turn.
    const options = { parent: context.active(), attributes: { "impact.batch.size": size } };
    return new Promise((resolve, reject) => {
      const run = (): Promise<void> => inSpan("write batch", options, work).then(resolve, reject);
      account.waiting.push({ size, run });
      this.#schedule(account);
    });
  };

  readonly drain = async (): Promise<void> => {
    while (this.#accounts.size > 0) {
      await this.#drained.promise;
    }
  };

  readonly queueLength = (): number => this.#waitingCount;

  /**
   * Returns the account, which has the places then.
   * @throws DomainError queue_full if they are not free
   */
  #requirePlaces(id: string, size: number): Account<Entry, Result> {
    const account = this.#accounts.get(id) ?? {
      id,
      waiting: [],
      size: 0,
      isScheduled: false,
      isLocked: false,
      aloneLimit: this.#maximumBatch,
    };
    const free = (this.#options.maximumWaiting ?? MAXIMUM_WAITING) - this.#waitingCount;
    if (account.size + size > free) {
      throw new DomainError(
        "queue_full",
        free < size
          ? "too many registrations are waiting, try again"
          : "too many registrations of this account are waiting, try again",
      );
    }
    this.#accounts.set(id, account);
    this.#changeSize(account, size);
    return account;
  }

  #changeSize(account: Account<Entry, Result>, change: number): void {
    account.size += change;
    this.#waitingCount += change;
  }

  /** Makes the account ready for its next write, unless it is already. */
  #schedule(account: Account<Entry, Result>): void {
    const [first] = account.waiting;
    if (first !== undefined && !account.isScheduled) {
      account.isScheduled = true;
      const isAlone = "run" in first || account.isLocked || this.#rejected.has(account.id);
      (isAlone ? this.#alone : this.#together)(account);
    }
  }

  /** Ends a write of the account. */
  #release(account: Account<Entry, Result>): void {
    account.isScheduled = false;
    this.#schedule(account);
    if (!account.isScheduled) {
      this.#accounts.delete(account.id);
    }
    if (this.#accounts.size === 0) {
      this.#drained.resolve();
      this.#drained = Promise.withResolvers();
    }
  }

  /** Writes the same number of entries of every ready account, as far as it has them. */
  async #writeBatch(ready: Set<Account<Entry, Result>>): Promise<void> {
    const parts = [...ready]
      .slice(0, this.#maximumBatch)
      .map((account): Part<Entry, Result> => ({ account, entries: [] }));
    let room = this.#maximumBatch;
    let unfinished: readonly Part<Entry, Result>[] = parts;
    while (unfinished.length > 0) {
      const share = Math.max(1, Math.floor(room / unfinished.length));
      unfinished = unfinished.filter((part) => {
        const taken = this.#takeEntries(part.account, Math.min(share, room));
        part.entries = [...part.entries, ...taken];
        room -= taken.length;
        return taken.length === share;
      });
    }
    for (const { account } of parts) {
      ready.delete(account);
    }
    await this.#write(parts, { isAlone: false });
    for (const { account } of parts) {
      this.#release(account);
    }
  }

  /** Writes entries of the account that is ready first, or its job. */
  async #writeAccount(ready: Set<Account<Entry, Result>>): Promise<void> {
    const [account] = ready;
    const [first] = account?.waiting ?? [];
    if (!account || !first) {
      return;
    }
    ready.delete(account);
    if ("run" in first) {
      account.waiting.shift();
      this.#changeSize(account, -first.size);
      await first.run();
    } else {
      const entries = this.#takeEntries(account, account.aloneLimit);
      account.aloneLimit = Math.min(this.#maximumBatch, account.aloneLimit * 2);
      await this.#write([{ account, entries }], { isAlone: true });
    }
    this.#release(account);
  }

  /** Takes the first entries of an account, up to its next job. */
  #takeEntries(account: Account<Entry, Result>, maximum: number): Waiting<Entry, Result>[] {
    const taken: Waiting<Entry, Result>[] = [];
    for (const item of account.waiting) {
      if (taken.length === maximum || "run" in item) {
        break;
      }
      taken.push(item);
    }
    account.waiting.splice(0, taken.length);
    this.#changeSize(account, -taken.length);
    return taken;
  }

  #putBack(account: Account<Entry, Result>, entries: readonly Waiting<Entry, Result>[]): void {
    account.waiting.unshift(...entries);
    this.#changeSize(account, entries.length);
  }

  async #write(
    parts: readonly Part<Entry, Result>[],
    options: { readonly isAlone: boolean },
  ): Promise<void> {
    const batch = parts.flatMap(({ entries }) => entries);
    const startedAtMs = performance.now();
    let results: readonly Written<Result>[];
    try {
      const entries = batch.map(({ entry }) => entry);
      results = await inBatchSpan(batch, () => this.#options.write(entries, options));
    } catch (error) {
      await this.#divide(parts, options, error);
      return;
    }
    this.#options.observeBatch?.(batch.length, (performance.now() - startedAtMs) / 1000);
    const locked = new Set(batch.filter((_, index) => results[index] === LOCKED));
    for (const { account, entries } of parts) {
      const own = entries.filter((entry) => locked.has(entry));
      account.isLocked = own.length > 0;
      this.#putBack(account, own);
    }
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
   * Divides what could not be written because of its content: between accounts, and the entries of one account in the writes
   * that follow. Rejects what cannot be divided.
   */
  async #divide(
    parts: readonly Part<Entry, Result>[],
    options: { readonly isAlone: boolean },
    error: unknown,
  ): Promise<void> {
    const [first] = parts;
    if (first && parts.length > 1 && isContentError(error)) {
      const middle = Math.ceil(parts.length / 2);
      await this.#write(parts.slice(0, middle), options);
      await this.#write(parts.slice(middle), options);
      return;
    }
    if (first && isContentError(error)) {
      const { account, entries } = first;
      this.#rejected.set(account.id, true);
      if (entries.length > 1) {
        account.aloneLimit = Math.ceil(entries.length / 2);
        this.#putBack(account, entries);
        return;
      }
    }
    for (const { reject } of parts.flatMap(({ entries }) => entries)) {
      reject(error);
    }
  }
}

/**
 * Writes entries that wait at the same time in one transaction, since row-at-a-time writes are slow on a busy account's
 * counter row. One batch is written at a time, while the next one collects.
 *
 * Accounts take turns: each batch has the same number of entries of every account that waits, as far as it has them. An
 * account may have as many entries waiting as there are free places, so one account alone fills half of the queue, and
 * the entries of others are still accepted. What one account submits is written in its order of arrival.
 *
 * What would make others wait or fail is written alone, beside the batches: jobs, the entries of an account that is locked
 * elsewhere, and for a minute those of an account of which the database has rejected something. If the database rejects a
 * batch, its halves are tried until the account, and then the entry, fails alone.
 */
export const createGroupCommit = <Entry, Result>(
  options: Options<Entry, Result>,
): GroupCommit<Entry, Result> => new GroupCommitQueue(options);
