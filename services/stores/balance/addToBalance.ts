import type { DatabaseTransactionConnection } from "slonik";
import type { LockedBalance } from "../../../db/stores/balances.ts";
import { insertBalanceEntry } from "../../../db/stores/balances.ts";
import { changedBalance } from "../../../domain/stores/changedBalance.ts";
import { reportLowBalance } from "./reportBalance.ts";

/**
 * Adds an operator's entry to the ledger of a store whose balance is locked.
 * @returns the new balance in cents
 * @throws DomainError request_invalid if the balance would be negative or beyond the safe integers
 */
export const addToBalance = async (
  transaction: DatabaseTransactionConnection,
  balance: LockedBalance,
  entry: {
    readonly kind: "topup" | "adjustment";
    readonly amountCents: number;
    readonly reference: string | null;
    readonly note: string;
  },
  now: Date,
): Promise<number> => {
  const balanceCents = changedBalance(balance.balanceCents, entry.amountCents);
  await insertBalanceEntry(transaction, now, {
    ...entry,
    accountId: balance.accountId,
    balanceCents,
  });
  await reportLowBalance(transaction, balance, balanceCents, now);
  return balanceCents;
};
