import { findBalanceEntryByReference } from "./balances.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { formatCents } from "../records/money.rules.ts";
import { defaultTopUpReference } from "./stores.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { changeLockedBalance, lockBalance } from "./lockBalance.ts";

const ACTIONS = { topup: "store.topup", adjustment: "store.adjust" } as const;

/** A payment that an operator adds to a store's balance, or a correction of it. */
export type OperatorEntry = {
  readonly kind: keyof typeof ACTIONS;
  readonly storeId: string;
  /** Above 0 for a top-up; negative for an adjustment that lowers the balance. */
  readonly amountCents: number;
  /** Null for a top-up's default, made of the day and the amount, and for an adjustment that each call repeats. */
  readonly reference: string | null;
  readonly note: string;
};

export type ChangedBalance = {
  readonly balanceCents: number;
  readonly reference: string | null;
  /** Whether the reference was recorded before, so that nothing was added. */
  readonly replayed: boolean;
};

/**
 * Adds an operator's entry to a store's ledger, once per reference.
 * @throws DomainError record_not_found for an unknown store; request_invalid if the reference has another entry, or the
 *   balance would be negative or beyond the safe integers
 */
export const changeBalance = (
  { db, clock, actor }: OperatorContext,
  { kind, storeId, amountCents, reference: given, note }: OperatorEntry,
): Promise<ChangedBalance> =>
  db.transaction(async (transaction) => {
    const balance = await lockBalance(transaction, storeId);
    const now = clock.now();
    const reference = given ?? (kind === "topup" ? defaultTopUpReference(now, amountCents) : null);
    const known =
      reference === null
        ? null
        : await findBalanceEntryByReference(transaction, storeId, reference);
    if (known) {
      if (known.kind !== kind || known.amount_cents !== amountCents) {
        throw invalidRequest(
          `the reference ${reference} was already used for an entry of ${formatCents(known.amount_cents)} (${known.kind})`,
        );
      }
      return { balanceCents: balance.balanceCents, reference, replayed: true };
    }
    const entry = { kind, amountCents, reference, note, createdAt: now.toISOString() };
    const balanceCents = await changeLockedBalance(transaction, balance, entry, now);
    await recordAction(transaction, actor, now, {
      action: ACTIONS[kind],
      accountId: storeId,
      details: { amountCents, reference, balanceCents },
    });
    return { balanceCents, reference, replayed: false };
  });
