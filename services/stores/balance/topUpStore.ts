import type { DatabasePool } from "slonik";
import { findBalanceEntryByReference } from "../../../db/stores/balances.ts";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import { invalidRequest } from "../../../domain/errors.ts";
import { formatCents } from "../../../domain/money.ts";
import { defaultTopUpReference } from "../../../domain/stores/stores.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { addToBalance } from "./addToBalance.ts";
import { lockBalance } from "./lockBalance.ts";

export type ToppedUp = {
  readonly balanceCents: number;
  readonly reference: string;
  /** Whether the reference was recorded before, so that nothing was added. */
  readonly replayed: boolean;
};

/**
 * Adds a payment to a store's balance, once per reference.
 * @param reference null for one made of the day and the amount
 * @param amountCents above 0
 * @throws DomainError record_not_found for an unknown store; request_invalid if the reference has another amount or the
 *   balance would exceed the safe integers
 */
export const topUpStore = (
  { db, clock, actor }: { readonly db: DatabasePool; readonly clock: Clock; readonly actor: Actor },
  {
    storeId,
    amountCents,
    reference: given,
    note,
  }: {
    readonly storeId: string;
    readonly amountCents: number;
    readonly reference: string | null;
    readonly note: string;
  },
): Promise<ToppedUp> =>
  db.transaction(async (transaction) => {
    const balance = await lockBalance(transaction, storeId);
    const now = clock.now();
    const reference = given ?? defaultTopUpReference(now, amountCents);
    const known = await findBalanceEntryByReference(transaction, storeId, reference);
    if (known && known.amountCents !== amountCents) {
      throw invalidRequest(
        `the reference ${reference} was already used for a top-up of ${formatCents(known.amountCents)}`,
      );
    }
    if (known) {
      return { balanceCents: balance.balanceCents, reference, replayed: true };
    }
    const entry = { kind: "topup", amountCents, reference, note } as const;
    const balanceCents = await addToBalance(transaction, balance, entry, now);
    await recordAction(transaction, actor, now, {
      action: "store.topup",
      accountId: storeId,
      details: { amountCents, reference, balanceCents },
    });
    return { balanceCents, reference, replayed: false };
  });
