import type { CommonQueryMethods, DatabasePool, DatabaseTransactionConnection } from "slonik";
import { findAnswers, insertAnswers } from "../../db/stores/idempotentAnswers.ts";
import type { LockedBalance } from "../../db/stores/storeBalances.ts";
import { lockBalances } from "../../db/stores/storeBalances.ts";
import type { Clock } from "../../domain/clock.ts";
import type { StoreAnswer, StoreWrite } from "../../domain/stores/storeWrites.ts";
import { replayAnswer } from "../../domain/stores/storeWrites.ts";
import type { StoreTurns } from "./createStoreTurns.ts";

/** What one write does while the store's balance is locked; whatever it throws takes all of it back. */
export type StoreEffect = (
  transaction: DatabaseTransactionConnection,
  balance: LockedBalance,
  now: Date,
) => Promise<void>;

/**
 * What the write's key got before, null where it is new.
 * @throws DomainError request_invalid when something else is asked for under the key
 */
export const findEarlierAnswer = async (
  db: CommonQueryMethods,
  write: StoreWrite,
): Promise<StoreAnswer | null> => {
  if (write.idempotency === null) {
    return null;
  }
  const [kept] = await findAnswers(db, [{ ...write, key: write.idempotency.key }]);
  return kept ? replayAnswer(write, kept) : null;
};

export type StoreWriteDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly turns: StoreTurns;
};

const writeAlone = (
  { db, clock }: Pick<StoreWriteDependencies, "db" | "clock">,
  write: StoreWrite,
  effect: StoreEffect,
): Promise<StoreAnswer> =>
  db.transaction(async (transaction) => {
    const [balance] = await lockBalances(transaction, [write.accountId]);
    if (!balance) {
      throw new Error(`Account ${write.accountId} has no balance.`);
    }
    // Under the lock: who had the key first has committed.
    const earlier = await findEarlierAnswer(transaction, write);
    if (earlier) {
      return earlier;
    }
    const now = clock.now();
    await effect(transaction, balance, now);
    if (write.idempotency !== null) {
      await insertAnswers(transaction, [{ ...write, ...write.idempotency }], now);
    }
    return { answer: write.answer, replayed: false };
  });

/**
 * Does one write of a store: effect, balance and the answer for its key in one transaction, one write of a store at a
 * time, whichever process it came to.
 * @throws DomainError request_invalid when something else is asked for under the key, queue_full when too much of the
 *   store is waiting, and what the effect throws
 */
export const runStoreWrite = (
  { db, clock, turns }: StoreWriteDependencies,
  write: StoreWrite,
  effect: StoreEffect,
): Promise<StoreAnswer> => turns(write.accountId, () => writeAlone({ db, clock }, write, effect));
