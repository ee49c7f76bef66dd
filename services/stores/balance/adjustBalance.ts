import type { DatabasePool } from "slonik";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { addToBalance } from "./addToBalance.ts";
import type { AddedToBalance } from "./addToBalance.ts";
import { lockBalance } from "./lockBalance.ts";

/**
 * Corrects a store's balance by an amount that may be negative, once per reference.
 * @param reference null for an adjustment that each call repeats
 * @throws DomainError record_not_found for an unknown store; request_invalid if the reference has another entry, or the
 *   balance would be negative or beyond the safe integers
 */
export const adjustBalance = (
  { db, clock, actor }: { readonly db: DatabasePool; readonly clock: Clock; readonly actor: Actor },
  {
    storeId,
    amountCents,
    reference,
    reason,
  }: {
    readonly storeId: string;
    readonly amountCents: number;
    readonly reference: string | null;
    readonly reason: string;
  },
): Promise<AddedToBalance> =>
  db.transaction(async (transaction) => {
    const balance = await lockBalance(transaction, storeId);
    const entry = { kind: "adjustment", amountCents, reference, note: reason } as const;
    const now = clock.now();
    const added = await addToBalance(transaction, balance, entry, now);
    if (!added.replayed) {
      await recordAction(transaction, actor, now, {
        action: "store.adjust",
        accountId: storeId,
        details: { amountCents, reference, balanceCents: added.balanceCents },
      });
    }
    return added;
  });
