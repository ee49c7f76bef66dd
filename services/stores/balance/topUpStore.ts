import type { DatabasePool } from "slonik";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import { defaultTopUpReference } from "../../../domain/stores/stores.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { addToBalance } from "./addToBalance.ts";
import type { AddedToBalance } from "./addToBalance.ts";
import { lockBalance } from "./lockBalance.ts";

/**
 * Adds a payment to a store's balance, once per reference.
 * @param reference null for one made of the day and the amount
 * @param amountCents above 0
 * @throws DomainError record_not_found for an unknown store; request_invalid if the reference has another entry or the
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
): Promise<AddedToBalance & { readonly reference: string }> =>
  db.transaction(async (transaction) => {
    const balance = await lockBalance(transaction, storeId);
    const now = clock.now();
    const reference = given ?? defaultTopUpReference(now, amountCents);
    const entry = { kind: "topup", amountCents, reference, note } as const;
    const added = await addToBalance(transaction, balance, entry, now);
    if (!added.replayed) {
      await recordAction(transaction, actor, now, {
        action: "store.topup",
        accountId: storeId,
        details: { amountCents, reference, balanceCents: added.balanceCents },
      });
    }
    return { ...added, reference };
  });
