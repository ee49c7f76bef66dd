import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import { accountModeKey } from "../records/owner.rules.ts";
import { addToTotals } from "../registrations/totals.sql.ts";
import type { LockedBalance } from "./balances.sql.ts";
import { isContentError } from "../../db/databaseErrors.ts";
import {
  insertBalanceEntries,
  limitLockWait,
  lockBalances,
  lockFreeBalances,
  takeRecordTimes,
} from "./balances.sql.ts";
import { recordCoveredWrites } from "./coveredWrites.sql.ts";
import { insertIdempotentResponses, listIdempotentResponses } from "./idempotentResponses.sql.ts";
import { insertStoreRegistrations } from "./storeRegistrations.sql.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { CustomerDetails } from "./customers.rules.ts";
import type {
  StoreRegistrationWrite,
  StoreResponse,
  StoreWriteDecision,
} from "./storeWrites.rules.ts";
import { decideStoreWrites, responseKey } from "./storeWrites.rules.ts";
import type { BatchObserver } from "../../db/batching/createGroupCommit.ts";
import { createGroupCommit } from "../../db/batching/createGroupCommit.ts";
import { submitTraced, traceBatches } from "../../db/batching/traceBatches.ts";
import type { TracedEntry } from "../../db/batching/traceBatches.ts";
import type { Context } from "../../runtime/context.ts";
import { reportDecisions } from "./lockBalance.ts";
import { lockLimits } from "../registrations/checkLimits.ts";
import { createBusyStores } from "./createBusyStores.ts";
import { newId } from "../../runtime/newId.ts";

type NewStoreRegistration = Omit<StoreRegistrationWrite, "id"> & CustomerDetails;

export type StoreRegistrationWriter = {
  /**
   * Records a registration and pays for it from the balance.
   * @throws DomainError balance_insufficient, queue_full, daily_limit_reached, or request_invalid if the idempotency key was
   *   used for another request or the units exceed a limit of the store
   */
  readonly register: (registration: NewStoreRegistration) => Promise<StoreResponse>;
  /** Resolves when every waiting write is done. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

type Entry = StoreRegistrationWrite & CustomerDetails & TracedEntry;
type Accepted = Extract<StoreWriteDecision<Entry>, { readonly kind: "accepted" }>;
/** The outcome of a write. */
type Outcome = Exclude<StoreWriteDecision<Entry>, Accepted> | Pick<Accepted, "kind" | "write">;
/** The outcomes of a batch. A write of a store that another write has locked is decided later. */
type Outcomes = readonly (Outcome | Promise<Outcome>)[];

const keysOf = (batch: readonly Entry[]) =>
  batch.flatMap(({ accountId, mode, operation, idempotency }) =>
    idempotency === null ? [] : [{ accountId, mode, operation, key: idempotency.key }],
  );

const recordAccepted = async (
  transaction: DatabaseTransactionConnection,
  accepted: readonly Accepted[],
  now: Date,
): Promise<void> => {
  if (accepted.length === 0) {
    return;
  }
  const accountIds = accepted.map(({ write }) => write.accountId);
  const times = await takeRecordTimes(transaction, accountIds, now);
  const registrations = accepted.map(({ write, ...decision }, place) => {
    const createdAt = times[place];
    if (createdAt === undefined) {
      throw new Error(`Account ${write.accountId} has no balance.`);
    }
    return { ...decision, ...write, createdAt };
  });
  await insertStoreRegistrations(transaction, registrations);
  await addToTotals(transaction, registrations);
  const entries = registrations.flatMap(({ costCents, count, id, ...rest }) =>
    costCents > 0
      ? [{ ...rest, amountCents: -costCents, quantity: count, registrationId: id }]
      : [],
  );
  await insertBalanceEntries(transaction, entries);
  const responses = registrations.flatMap(({ idempotency, ...write }) =>
    idempotency === null ? [] : [{ ...write, ...idempotency, recordId: write.id }],
  );
  await insertIdempotentResponses(transaction, responses);
};

/** Decides and records the writes of stores whose balances are locked. */
const writeLocked = async (
  transaction: DatabaseTransactionConnection,
  writes: readonly Entry[],
  balances: readonly LockedBalance[],
  now: Date,
): Promise<readonly StoreWriteDecision<Entry>[]> => {
  // Under the locks: earlier requests with these keys have committed.
  const stored = await listIdempotentResponses(transaction, keysOf(writes));
  const { limits, countRegistered } = await lockLimits(transaction, writes, now);
  const decisions = decideStoreWrites(
    writes,
    new Map(balances.map((balance) => [balance.accountId, balance])),
    new Map(stored.map((response) => [responseKey(response), response])),
    new Map(limits.map((each) => [accountModeKey(each), each])),
  );
  const accepted = decisions.filter((decision) => decision.kind === "accepted");
  await recordAccepted(transaction, accepted, now);
  await countRegistered(accepted.map(({ write }) => write));
  await reportDecisions(transaction, balances, decisions, now);
  return decisions;
};

/** Returns the stores that use a key twice in the batch. */
const storesThatRepeatKeys = (batch: readonly Entry[]): ReadonlySet<string> => {
  const keys = new Set<string>();
  const stores = new Set<string>();
  for (const write of batch) {
    if (write.idempotency !== null) {
      const key = responseKey({ ...write, key: write.idempotency.key });
      if (keys.has(key)) {
        stores.add(write.accountId);
      }
      keys.add(key);
    }
  }
  return stores;
};

/**
 * Records the writes of stores that need no decision.
 * @returns the ids of these stores; none if the database rejects the statement, because a decision finds the cause
 */
const recordCovered = async (
  db: DatabasePool,
  batch: readonly Entry[],
  now: Date,
): Promise<readonly string[]> => {
  const undecided = new Set([
    ...storesThatRepeatKeys(batch),
    ...batch.filter(({ isLimited }) => isLimited).map(({ accountId }) => accountId),
  ]);
  const writes = batch.filter(({ accountId }) => !undecided.has(accountId));
  if (writes.length === 0) {
    return [];
  }
  try {
    return await recordCoveredWrites(db, writes, now);
  } catch (error) {
    if (isContentError(error)) {
      return [];
    }
    throw error;
  }
};

/** Decides and records the writes of stores whose balances no other write has locked. */
const decideFree = (
  db: DatabasePool,
  clock: Clock,
  batch: readonly Entry[],
): Promise<ReadonlyMap<Entry, Outcome>> =>
  db.transaction(async (transaction) => {
    const accountIds = [...new Set(batch.map(({ accountId }) => accountId))];
    const balances = await lockFreeBalances(transaction, accountIds);
    const free = new Set(balances.map(({ accountId }) => accountId));
    const writes = batch.filter(({ accountId }) => free.has(accountId));
    if (writes.length === 0) {
      return new Map();
    }
    const decisions = await writeLocked(transaction, writes, balances, clock.now());
    return new Map<Entry | undefined, Outcome>(
      decisions.map((decision, index) => [writes[index], decision]),
    );
  });

/**
 * Records registrations of stores by group commit. A write that the balance does not cover is rejected alone. The writes
 * of a store whose balance another write has locked, such as a large refund, leave their batch and wait apart.
 */
export const createStoreRegistrationWriter = ({
  db,
  clock,
  observeBatch,
  maximumWaiting,
  tracing,
}: Context & {
  readonly observeBatch?: BatchObserver;
  readonly maximumWaiting?: number;
}): StoreRegistrationWriter => {
  const busyStores = createBusyStores<Entry, StoreWriteDecision<Entry>>(
    (accountId, writes, lockWaitMs) =>
      db.transaction(async (transaction) => {
        await limitLockWait(transaction, lockWaitMs);
        const balances = await lockBalances(transaction, [accountId]);
        return writeLocked(transaction, writes, balances, clock.now());
      }),
  );

  /** Decides writes one by one, in a transaction of several statements. */
  const decideBatch = async (batch: readonly Entry[]): Promise<Outcomes> => {
    const decided = await decideFree(db, clock, batch);
    return batch.map((write) => decided.get(write) ?? busyStores.write(write.accountId, write));
  };

  /** Decides the rest of a batch of which some writes are recorded. An error is only the rest's: the batch is not repeated. */
  const decideRest = async (rest: readonly Entry[]): Promise<Outcomes> => {
    try {
      return await decideBatch(rest);
    } catch (error) {
      return rest.map((write) =>
        isContentError(error)
          ? busyStores.write(write.accountId, write)
          : Promise.reject<Outcome>(error),
      );
    }
  };

  /** Writes what needs no decision in one statement, and then the rest. All writes of a store are in one of the two. */
  const writeBatch = async (batch: readonly Entry[]): Promise<Outcomes> => {
    const covered = new Set(await recordCovered(db, batch, clock.now()));
    if (covered.size === 0) {
      return decideBatch(batch);
    }
    const others = batch.filter(({ accountId }) => !covered.has(accountId));
    const decisions = others.length === 0 ? [] : await decideRest(others);
    const decided = new Map(others.map((write, index) => [write, decisions[index]]));
    return batch.map((write) => decided.get(write) ?? { kind: "accepted", write });
  };

  const queue = createGroupCommit<Entry, Outcome>({
    write: tracing === undefined ? writeBatch : traceBatches(tracing, writeBatch),
    accountOf: ({ accountId }) => accountId,
    observeBatch,
    maximumWaiting,
  });
  return {
    register: async (registration) => {
      const entry = { ...registration, id: newId() };
      const decision = await submitTraced(tracing, queue.submit, entry);
      switch (decision.kind) {
        case "rejected":
          throw decision.error;
        case "replayed":
          return decision.response;
        case "accepted":
          return {
            responseBody: registration.responseBody,
            recordId: decision.write.id,
            replayed: false,
          };
      }
    },
    drain: async () => {
      await queue.drain();
      await busyStores.drain();
    },
    queueLength: () => queue.queueLength() + busyStores.queueLength(),
  };
};
