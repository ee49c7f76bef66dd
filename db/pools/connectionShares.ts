import { AsyncLocalStorage } from "node:async_hooks";
import { DomainError } from "../../runtime/errors.rules.ts";

/** For whom a connection is needed: an account, and the kind of its request. */
export type Claim = {
  readonly accountId: string;
  readonly kind: string;
  /** Whether it is for a query that may read many records. */
  readonly isSlowRead?: boolean;
};

const claims = new AsyncLocalStorage<Claim>();

/** Runs work whose connections count against the shares of an account and of a kind of request. */
export const runForAccount = <Result>(claim: Claim, work: () => Result): Result =>
  claims.run(claim, work);

/** Runs work on behalf of all accounts. Its connections count against no share. */
export const runForAll = <Result>(work: () => Result): Result => claims.exit(work);

export const readClaim = (): Claim | undefined => claims.getStore();

export type ConnectionShares = {
  /**
   * Runs work that needs a connection as soon as its account and kind may have one.
   * @throws DomainError queue_full if too much work waits, or this has waited too long
   */
  readonly run: <Result>(claim: Claim, work: () => Promise<Result>) => Promise<Result>;
  readonly usedCount: () => number;
  readonly waitingCount: () => number;
};

const MAXIMUM_WAITING = 10_000;
/** Clients and proxies commonly wait no longer. */
const MAXIMUM_WAIT_MS = 60_000;

type Waiting = { readonly claim: Claim; readonly start: () => void };

const busy = (): DomainError =>
  new DomainError("queue_full", "too many requests are waiting, try again");

const shareOf = ({ accountId, kind }: Claim): string => `${accountId} ${kind}`;

/** Counts connections in use by name. */
const createCounter = () => {
  const counts = new Map<string, number>();
  return {
    read: (name: string): number => counts.get(name) ?? 0,
    add: (name: string, change: 1 | -1): void => {
      const count = (counts.get(name) ?? 0) + change;
      if (count === 0) {
        counts.delete(name);
      } else {
        counts.set(name, count);
      }
    },
  };
};

/** How many connections of a pool requests of accounts may use: together, of one kind, and of one account and kind. */
export type Shares = {
  readonly total: number;
  readonly perKind: number;
  readonly perAccount: number;
};

/**
 * Returns the shares of a pool for all kinds of work. A third is for work without an account: authentication and group
 * commit. Requests of accounts share the rest: one kind of them has at most two thirds of it, one account at most half
 * of it for a kind.
 */
export const sharesOfMixedPool = (connections: number): Shares => {
  const total = Math.max(1, connections - Math.ceil(connections / 3));
  return {
    total,
    perKind: Math.max(1, Math.ceil((total * 2) / 3)),
    perAccount: Math.max(1, Math.ceil(total / 2)),
  };
};

/** Returns the shares of a pool for one kind of work. One account never has the last connection of several. */
export const sharesOfOneKind = (connections: number): Shares => ({
  total: connections,
  perKind: connections,
  perAccount: Math.max(1, connections - 1),
});

/** Counts the connections in use of a pool, and compares them with its shares. */
const createUsedConnections = ({ total, perKind, perAccount }: Shares) => {
  const kinds = createCounter();
  const accounts = createCounter();
  let used = 0;
  return {
    count: () => used,
    isFull: () => used >= total,
    /** Whether work may have another connection. */
    hasPlace: (claim: Claim): boolean =>
      used < total &&
      kinds.read(claim.kind) < perKind &&
      accounts.read(shareOf(claim)) < perAccount,
    add: (claim: Claim, change: 1 | -1): void => {
      used += change;
      kinds.add(claim.kind, change);
      accounts.add(shareOf(claim), change);
    },
  };
};

/**
 * Divides the connections of a pool. What exceeds its share waits, and the accounts take turns. An account may have as much
 * waiting as there is room for more, so what is rejected is of the account that fills it.
 */
export const createConnectionShares = (
  maximum: Shares,
  { maximumWaiting = MAXIMUM_WAITING, maximumWaitMs = MAXIMUM_WAIT_MS } = {},
): ConnectionShares => {
  const used = createUsedConnections(maximum);
  /** By account and kind, in the order of their turns. */
  const waiting = new Map<string, Set<Waiting>>();
  let waitingCount = 0;

  const removeWaiting = (share: string, entry: Waiting): void => {
    const entries = waiting.get(share);
    if (entries?.delete(entry) === true) {
      waitingCount -= 1;
      if (entries.size === 0) {
        waiting.delete(share);
      }
    }
  };

  const startWaiting = (): void => {
    for (const [share, entries] of waiting) {
      const [first] = entries;
      if (used.isFull()) {
        return;
      }
      if (first && used.hasPlace(first.claim)) {
        used.add(first.claim, 1);
        removeWaiting(share, first);
        if (entries.size > 0) {
          // The next turn of this account comes after those of the others; the loop visits it again.
          waiting.delete(share);
          waiting.set(share, entries);
        }
        first.start();
      }
    }
  };

  const wait = (claim: Claim): Promise<void> =>
    new Promise((resolve, reject) => {
      const share = shareOf(claim);
      const entries = waiting.get(share) ?? new Set();
      if (entries.size >= maximumWaiting - waitingCount) {
        reject(busy());
        return;
      }
      const entry: Waiting = {
        claim,
        start: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      const timer = setTimeout(() => {
        removeWaiting(share, entry);
        reject(busy());
      }, maximumWaitMs);
      waiting.set(share, entries.add(entry));
      waitingCount += 1;
    });

  return {
    run: async (claim, work) => {
      if (!waiting.has(shareOf(claim)) && used.hasPlace(claim)) {
        used.add(claim, 1);
      } else {
        await wait(claim);
      }
      try {
        return await work();
      } finally {
        used.add(claim, -1);
        startWaiting();
      }
    },
    usedCount: used.count,
    waitingCount: () => waitingCount,
  };
};

type WaitOptions = { readonly maximumWaitMs?: number };

/**
 * Divides the connections of a pool in which accounts take turns, and one account never has the last of several. All
 * requests of an account count as one kind, or it could fill the pool with requests of two kinds.
 */
export const createTurns = (connections: number, options?: WaitOptions): ConnectionShares => {
  const shares = createConnectionShares(sharesOfOneKind(connections), options);
  return {
    ...shares,
    run: ({ accountId }, work) => shares.run({ accountId, kind: "any" }, work),
  };
};

/**
 * Divides the connections of a pool for short and slow reads, for which accounts take turns. One connection is for work
 * without an account, and slow reads have half of all at most. So neither that work nor a short read waits for a slow one.
 * @param connections at least three
 */
export const createReadShares = (connections: number, options?: WaitOptions): ConnectionShares => {
  const all = createTurns(connections - 1, options);
  const slow = createTurns(Math.floor(connections / 2), options);
  return {
    run: (claim, work) =>
      claim.isSlowRead === true
        ? slow.run(claim, () => all.run(claim, work))
        : all.run(claim, work),
    usedCount: all.usedCount,
    waitingCount: () => slow.waitingCount() + all.waitingCount(),
  };
};
