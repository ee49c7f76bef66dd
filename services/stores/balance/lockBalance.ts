import type { DatabaseTransactionConnection } from "slonik";
import { lockBalances } from "../../../db/stores/balances.ts";
import type { LockedBalance } from "../../../db/stores/balances.ts";
import { DomainError } from "../../../domain/errors.ts";

/**
 * Locks a store's balance until the transaction ends.
 * @throws DomainError record_not_found
 */
export const lockBalance = async (
  transaction: DatabaseTransactionConnection,
  storeId: string,
): Promise<LockedBalance> => {
  const [balance] = await lockBalances(transaction, [storeId]);
  if (!balance) {
    throw new DomainError("record_not_found", `store ${storeId} not found`);
  }
  return balance;
};
