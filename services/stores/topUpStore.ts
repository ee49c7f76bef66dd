import type { DatabasePool } from "slonik";
import {
  findBalanceEntryByReference,
  insertBalanceEntries,
  lockBalances,
} from "../../db/stores/balances.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import { formatCents } from "../../domain/money.ts";

export type ToppedUp = {
  readonly balanceCents: number;
  /** Whether the reference was known, so that nothing was added. */
  readonly replayed: boolean;
};

/**
 * Adds to a store's balance, or takes a mistake back with an amount below 0. The same reference twice is one top-up.
 * @throws DomainError record_not_found for an unknown store; request_invalid when the balance would leave its range or
 *   the reference stands for another amount
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
      throw new DomainError("record_not_found", `There is no store ${storeId}.`);
    }
    const known =
      reference === null
        ? null
        : await findBalanceEntryByReference(transaction, storeId, reference);
    if (known) {
      if (known.amountCents !== amountCents) {
        throw new DomainError(
          "request_invalid",
          `The reference ${reference} stands for ${formatCents(known.amountCents)} already.`,
        );
      }
      return { balanceCents: balance.balanceCents, replayed: true };
    }
    const balanceCents = balance.balanceCents + amountCents;
    if (balanceCents < 0 || !Number.isSafeInteger(balanceCents)) {
      throw new DomainError(
        "request_invalid",
        `The balance is ${formatCents(balance.balanceCents)}: it cannot become ${formatCents(balanceCents)}.`,
      );
    }
    await insertBalanceEntries(
      transaction,
      [
        {
          accountId: storeId,
          kind: amountCents < 0 ? "correction" : "topup",
          amountCents,
          balanceCents,
          quantity: null,
          registrationId: null,
          donationId: null,
          reference,
          note,
        },
      ],
      clock.now(),
    );
    return { balanceCents, replayed: false };
  });
