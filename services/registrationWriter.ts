import { IntegrityConstraintViolationError, SlonikError } from "slonik";
import type { DatabasePool } from "slonik";
import { v7 as newId } from "uuid";
import type { InsertedRegistrations, RegistrationEntry } from "../db/registrations.ts";
import { findByIdempotencyKey, insertRegistrations } from "../db/registrations.ts";
import { readTotals } from "../db/totals.ts";
import type { Clock } from "../domain/clock.ts";
import { DomainError } from "../domain/errors.ts";
import type { NewRegistration, Owner, Registration, Totals } from "../domain/registrations.ts";

/** What a client is told of its registration, as if it had been alone and in its order of arrival. */
export type Registered = {
  readonly registration: Registration;
  readonly totals: Totals;
  /** Whether the idempotency key was known, so that this is the original. */
  readonly replayed: boolean;
};

export type RegistrationWriter = {
  /**
   * Records an impact action with its usage fact and totals.
   * @throws DomainError queue_full when more is waiting than the database keeps up with
   */
  readonly register: (entry: NewRegistration) => Promise<Registered>;
  /** Resolves when all that was waiting has been answered. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

/** Told of every batch that was written. */
export type BatchObserver = (size: number, durationSeconds: number) => void;

type Waiting = {
  readonly entry: RegistrationEntry;
  readonly resolve: (registered: Registered) => void;
  readonly reject: (reason: unknown) => void;
};

/** Larger batches gain nothing more per row, and make the first request of a batch wait for the last. */
const MAXIMUM_BATCH = 400;
/** Some seconds of work: a client that waits longer is better told to come back. */
const MAXIMUM_WAITING = 10_000;

const ownerKey = ({ accountId, mode, kind }: Owner): string => `${accountId}/${mode}/${kind}`;

const toRegistration = (entry: RegistrationEntry, createdAt: Date): Registration => ({
  id: entry.id,
  count: entry.count,
  fractionalCount: entry.fractionalCount,
  createdAt,
  idempotencyKey: entry.idempotencyKey,
  attribution: entry.attribution,
  metadata: entry.metadata,
  refunded: false,
});

/**
 * The totals after each new entry of the batch, by id. The statement tells only those after the last, so they are
 * counted back from there.
 */
const totalsInOrder = (
  entries: readonly RegistrationEntry[],
  { insertedIds, totals }: InsertedRegistrations,
): ReadonlyMap<string, Totals> => {
  const inserted = new Set(insertedIds);
  const latest = new Map<string, { all: number; month: number }>();
  for (const { period, total, ...owner } of totals) {
    const known = latest.get(ownerKey(owner)) ?? { all: 0, month: 0 };
    latest.set(
      ownerKey(owner),
      period === "all" ? { ...known, all: total } : { ...known, month: total },
    );
  }
  const after = new Map<string, Totals>();
  for (const entry of entries.toReversed()) {
    const running = latest.get(ownerKey(entry));
    if (running && inserted.has(entry.id)) {
      after.set(entry.id, { ...running });
      running.all -= entry.count;
      running.month -= entry.count;
    }
  }
  return after;
};

/** Whether the database refused something in the batch itself, so that a smaller part of it may pass. */
const isRefusedContent = (error: unknown): boolean =>
  error instanceof DomainError ||
  error instanceof IntegrityConstraintViolationError ||
  // Class 22 of SQLSTATE: data exceptions, such as a sum that leaves the range of its type.
  (error instanceof SlonikError &&
    typeof error.cause === "object" &&
    error.cause !== null &&
    "code" in error.cause &&
    String(error.cause.code).startsWith("22"));

/**
 * Group commit: requests that wait at the same time share one statement, one commit and one update of each account's
 * totals, since row-at-a-time writes collapse on a busy account's counter row. One batch is under way at a time; the
 * next one gathers meanwhile.
 */
export const createRegistrationWriter = ({
  db,
  clock,
  observeBatch,
  maximumWaiting = MAXIMUM_WAITING,
}: {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly observeBatch?: BatchObserver;
  readonly maximumWaiting?: number;
}): RegistrationWriter => {
  const waiting: Waiting[] = [];
  const replaying = new Set<Promise<void>>();
  let writing: Promise<void> | null = null;

  const findOriginal = async (entry: RegistrationEntry): Promise<Registered> => {
    // It is committed: the statement waited for whoever had the key.
    const original = await findByIdempotencyKey(db, entry, entry.idempotencyKey ?? "");
    if (!original) {
      throw new Error(`Registration ${entry.id} was neither recorded nor is it known.`);
    }
    const totals = await readTotals(db, entry, clock.now());
    return { registration: original, totals, replayed: true };
  };

  const answerReplays = async (replays: readonly Waiting[]): Promise<void> => {
    const originals = new Map<string, Promise<Registered>>();
    await Promise.all(
      replays.map(async ({ entry, resolve, reject }) => {
        const key = `${ownerKey(entry)}/${entry.idempotencyKey ?? ""}`;
        const original = originals.get(key) ?? findOriginal(entry);
        originals.set(key, original);
        await original.then(resolve, reject);
      }),
    );
  };

  const answer = (
    batch: readonly Waiting[],
    inserted: InsertedRegistrations,
    createdAt: Date,
  ): void => {
    const totals = totalsInOrder(
      batch.map(({ entry }) => entry),
      inserted,
    );
    const replays: Waiting[] = [];
    for (const request of batch) {
      const own = totals.get(request.entry.id);
      if (own) {
        request.resolve({
          registration: toRegistration(request.entry, createdAt),
          totals: own,
          replayed: false,
        });
      } else {
        replays.push(request);
      }
    }
    if (replays.length > 0) {
      // Not awaited: who repeats a request must not hold up those who write.
      const answering = answerReplays(replays).finally(() => replaying.delete(answering));
      replaying.add(answering);
    }
  };

  const write = async (batch: readonly Waiting[]): Promise<void> => {
    const startedAtMs = performance.now();
    const createdAt = clock.now();
    try {
      const inserted = await insertRegistrations(
        db,
        batch.map(({ entry }) => entry),
        createdAt,
      );
      observeBatch?.(batch.length, (performance.now() - startedAtMs) / 1000);
      answer(batch, inserted, createdAt);
    } catch (error) {
      if (batch.length > 1 && isRefusedContent(error)) {
        const middle = Math.ceil(batch.length / 2);
        await write(batch.slice(0, middle));
        await write(batch.slice(middle));
        return;
      }
      for (const { reject } of batch) {
        reject(error);
      }
    }
  };

  const writeAll = async (): Promise<void> => {
    // What else this turn of the event loop reads from its sockets joins the first batch.
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    while (waiting.length > 0) {
      await write(waiting.splice(0, MAXIMUM_BATCH));
    }
    writing = null;
  };

  return {
    register: (entry) => {
      if (waiting.length >= maximumWaiting) {
        throw new DomainError("queue_full", "too many registrations are waiting, try again");
      }
      return new Promise<Registered>((resolve, reject) => {
        waiting.push({ entry: { ...entry, id: newId() }, resolve, reject });
        writing ??= writeAll();
      });
    },
    drain: async () => {
      await writing;
      await Promise.all(replaying);
    },
    queueLength: () => waiting.length,
  };
};
