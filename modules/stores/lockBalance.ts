import type { DatabaseTransactionConnection } from "slonik";
import { lockBalances } from "./balances.sql.ts";
import type { LockedBalance } from "./balances.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";

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
