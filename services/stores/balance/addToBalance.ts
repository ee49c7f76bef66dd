import type { DatabaseTransactionConnection } from "slonik";
import type { LockedBalance } from "../../../db/stores/balances.ts";
import { findBalanceEntryByReference, insertBalanceEntry } from "../../../db/stores/balances.ts";
import { invalidRequest } from "../../../domain/errors.ts";
import { formatCents } from "../../../domain/money.ts";
import { changedBalance } from "../../../domain/stores/changedBalance.ts";
import { reportLowBalance } from "./reportBalance.ts";

export type AddedToBalance = {
  readonly balanceCents: number;
  /** Whether the reference was recorded before, so that nothing was added. */
  readonly replayed: boolean;
};

/**
 * Adds an operator's entry to the ledger of a store whose balance is locked, once per reference.
 * @throws DomainError request_invalid if the reference has another entry, or the balance would be negative or beyond the
 *   safe integers
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
): Promise<AddedToBalance> => {
  const known =
    entry.reference === null
      ? null
      : await findBalanceEntryByReference(transaction, balance.accountId, entry.reference);
  if (known) {
    if (known.kind !== entry.kind || known.amountCents !== entry.amountCents) {
      throw invalidRequest(
        `the reference ${entry.reference} was already used for an entry of ${formatCents(known.amountCents)} (${known.kind})`,
      );
    }
    return { balanceCents: balance.balanceCents, replayed: true };
  }
  const balanceCents = changedBalance(balance.balanceCents, entry.amountCents);
  await insertBalanceEntry(transaction, now, {
    ...entry,
    accountId: balance.accountId,
    balanceCents,
  });
  await reportLowBalance(transaction, balance, balanceCents, now);
  return { balanceCents, replayed: false };
};
