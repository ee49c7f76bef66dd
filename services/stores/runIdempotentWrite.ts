import type { CommonQueryMethods, DatabasePool, DatabaseTransactionConnection } from "slonik";
import {
  insertIdempotentResponses,
  listIdempotentResponses,
} from "../../db/stores/idempotentResponses.ts";
import { lockBalances } from "../../db/stores/balances.ts";
import type { LockedBalance } from "../../db/stores/balances.ts";
import type { Clock } from "../../domain/clock.ts";
import type { StoreResponse, StoreWrite } from "../../domain/stores/storeWrites.ts";
import { replayResponse } from "../../domain/stores/storeWrites.ts";
import type { AccountQueue } from "../createAccountQueue.ts";

/** What a write does while the store's balance is locked. If it throws, nothing is recorded. */
export type StoreWriteEffect = (
  transaction: DatabaseTransactionConnection,
  balance: LockedBalance,
  now: Date,
) => Promise<void>;

export type StoreWriteDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly writeQueue: AccountQueue;
};

/**
 * Returns the stored response to an earlier request with the write's key, or null.
 * @throws DomainError request_invalid if the key was used for another request
 */
export const findEarlierResponse = async (
  db: CommonQueryMethods,
  write: StoreWrite,
): Promise<StoreResponse | null> => {
  if (write.idempotency === null) {
    return null;
  }
  const [stored] = await listIdempotentResponses(db, [{ ...write, key: write.idempotency.key }]);
  return stored ? replayResponse(write, stored) : null;
};

/**
 * Runs one write of a store: its effect, the balance and the response for its key in one transaction. The lock of the
 * balance lets one write of a store run at a time, in all processes.
 * @param recordId the record that the effect inserts; null if it inserts none
 * @throws DomainError request_invalid if the key was used for another request, queue_full if too many writes of the
 *   store are waiting, and what the effect throws
 */
export const runIdempotentWrite = (
  { db, clock, writeQueue }: StoreWriteDependencies,
  write: StoreWrite,
  recordId: string | null,
  effect: StoreWriteEffect,
): Promise<StoreResponse> =>
  writeQueue(write.accountId, () =>
    db.transaction(async (transaction) => {
      const [balance] = await lockBalances(transaction, [write.accountId]);
      if (!balance) {
        throw new Error(`Account ${write.accountId} has no balance.`);
      }
      // Under the lock: an earlier request with the key has committed.
      const earlier = await findEarlierResponse(transaction, write);
      if (earlier) {
        return earlier;
      }
      const now = clock.now();
      await effect(transaction, balance, now);
      if (write.idempotency !== null) {
        await insertIdempotentResponses(
          transaction,
          [{ ...write, ...write.idempotency, recordId }],
          now,
        );
      }
      return { responseBody: write.responseBody, recordId, replayed: false };
    }),
  );
