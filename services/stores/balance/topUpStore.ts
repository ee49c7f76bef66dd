import type { DatabasePool } from "slonik";
import { findBalanceEntryByReference, lockBalances } from "../../../db/stores/balances.ts";
import type { Clock } from "../../../domain/clock.ts";
import { DomainError } from "../../../domain/errors.ts";
import { formatCents } from "../../../domain/money.ts";
import { addToBalance } from "./addToBalance.ts";

export type ToppedUp = {
  readonly balanceCents: number;
  /** Whether the reference was recorded before, so that nothing was added. */
  readonly replayed: boolean;
};

/**
 * Adds a payment to a store's balance, once per reference.
 * @param amountCents above 0
 * @throws DomainError record_not_found for an unknown store; request_invalid if the reference has another amount or the
 *   balance would exceed the safe integers
 */
export const topUpStore = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  {
    storeId,
    amountCents,
    reference,
    note,
  }: {
    readonly storeId: string;
    readonly amountCents: number;
    readonly reference: string | null;
    readonly note: string;
  },
): Promise<ToppedUp> =>
  db.transaction(async (transaction) => {
    const [balance] = await lockBalances(transaction, [storeId]);
    if (!balance) {
      throw new DomainError("record_not_found", `store ${storeId} not found`);
    }
    const known =
      reference === null
        ? null
        : await findBalanceEntryByReference(transaction, storeId, reference);
    if (known && known.amountCents !== amountCents) {
      throw new DomainError(
        "request_invalid",
        `the reference ${reference} was already used for a top-up of ${formatCents(known.amountCents)}`,
      );
    }
    if (known) {
      return { balanceCents: balance.balanceCents, replayed: true };
    }
    const entry = { kind: "topup", amountCents, reference, note } as const;
    return {
      balanceCents: await addToBalance(transaction, balance, entry, clock.now()),
      replayed: false,
    };
  });
