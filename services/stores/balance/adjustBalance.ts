import type { DatabasePool } from "slonik";
import type { Actor } from "../../../domain/accounts/audit.ts";
import type { Clock } from "../../../domain/clock.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { addToBalance } from "./addToBalance.ts";
import { lockBalance } from "./lockBalance.ts";

/**
 * Corrects a store's balance by an amount that may be negative.
 * @returns the new balance in cents
 * @throws DomainError record_not_found for an unknown store; request_invalid if the balance would be negative or beyond
 *   the safe integers
 */
export const adjustBalance = (
  { db, clock, actor }: { readonly db: DatabasePool; readonly clock: Clock; readonly actor: Actor },
  {
    storeId,
    amountCents,
    reason,
  }: { readonly storeId: string; readonly amountCents: number; readonly reason: string },
): Promise<number> =>
  db.transaction(async (transaction) => {
    const balance = await lockBalance(transaction, storeId);
    const entry = { kind: "adjustment", amountCents, reference: null, note: reason } as const;
    const now = clock.now();
    const balanceCents = await addToBalance(transaction, balance, entry, now);
    await recordAction(transaction, actor, now, {
      action: "store.adjust",
      accountId: storeId,
      details: { amountCents, balanceCents },
    });
    return balanceCents;
  });
