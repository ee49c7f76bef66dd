import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import type { StoreContext } from "./context.ts";
import { insertIdempotentResponses, listIdempotentResponses } from "./idempotentResponses.sql.ts";
import { takeRecordTimes } from "./balances.sql.ts";
import type { LockedBalance } from "./balances.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { replayResponse } from "./storeWrites.rules.ts";
import type { StoreResponse, StoreWrite } from "./storeWrites.rules.ts";
import { balanceInsufficient } from "./stores.rules.ts";
import { lockBalance, reportRefusal } from "./lockBalance.ts";

/**
 * What a write does while the store's balance is locked. If it throws, nothing is recorded.
 * @param createdAt the time of the record that it inserts, by which an erasure finds the stored response
 */
export type StoreWriteEffect = (
  transaction: DatabaseTransactionConnection,
  balance: LockedBalance,
  now: Date,
  createdAt: Date | string,
) => Promise<void>;

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
 * @param costCents what the effect takes from the balance
 * @throws DomainError request_invalid if the key was used for another request, balance_insufficient, and what the effect
 *   throws
 */
export const runIdempotentWrite = async (
  { db, clock, writeQueue }: StoreContext,
  write: StoreWrite,
  { recordId, costCents }: { readonly recordId: string | null; readonly costCents: number },
  effect: StoreWriteEffect,
): Promise<StoreResponse> => {
  const run = () =>
    db.transaction(async (transaction) => {
      const { accountId } = write;
      const balance = await lockBalance(transaction, accountId);
      // Under the lock: an earlier request with the key has committed.
      const earlier = await findEarlierResponse(transaction, write);
      if (earlier) {
        return earlier;
      }
      const now = clock.now();
      const { balanceCents } = balance;
      if (costCents > balanceCents) {
        const refusal = { accountId, neededCents: costCents, balanceCents };
        await reportRefusal(transaction, balance, refusal, now);
        // Returned, so that the event is committed.
        return balanceInsufficient(costCents, balanceCents);
      }
      const [createdAt = now] =
        recordId === null ? [] : await takeRecordTimes(transaction, [accountId], now);
      await effect(transaction, balance, now, createdAt);
      if (write.idempotency !== null) {
        await insertIdempotentResponses(transaction, [
          { ...write, ...write.idempotency, recordId, createdAt },
        ]);
      }
      return { responseBody: write.responseBody, recordId, replayed: false };
    });
  const response = await writeQueue(write.accountId, run);
  if (response instanceof DomainError) {
    throw response;
  }
  return response;
};
