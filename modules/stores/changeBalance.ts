import type { DatabaseTransactionConnection } from "slonik";
import { invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { recordEvent } from "../events/recordEvent.ts";
import { formatCents } from "../records/money.rules.ts";
import { findBalanceEntryByReference } from "./balances.sql.ts";
import { addToBalance, defaultTopUpReference, isBalanceLow } from "./stores.rules.ts";
import { lockBalances, updateStore } from "./stores.sql.ts";
import type { Store } from "./stores.sql.ts";
import type { StoreLedger } from "./storeWrites.rules.ts";
import { recordStoreWrites } from "./storeWrites.sql.ts";
import type { NewBalanceEntry } from "./storeWrites.sql.ts";

/**
 * Locks a store's balance until the transaction ends.
 * @throws DomainError record_not_found
 */
export const lockBalance = async (transaction: DatabaseTransactionConnection, storeId: string) => {
  const [store] = await lockBalances(transaction, [storeId]);
  return requireFound(store, `store ${storeId} not found`);
};

/** Test keys spend nothing. */
const MODE = "live";

/** Records `balance.low` if a change of a store's balance or of its threshold makes the balance low. */
export const reportLowBalance = async (
  transaction: DatabaseTransactionConnection,
  before: Store,
  change: Partial<Pick<Store, "balanceCents" | "lowBalanceCents">>,
  now: Date,
): Promise<void> => {
  const after = { ...before, ...change };
  if (!isBalanceLow(before) && isBalanceLow(after)) {
    await recordEvent(transaction, { accountId: after.id, mode: MODE }, now, {
      type: "balance.low",
      data: {
        shop_domain: after.domain,
        balance_cents: after.balanceCents,
        currency: "USD",
        threshold_cents: after.lowBalanceCents,
      },
    });
  }
};

/**
 * Adds an operator's entry to the ledger of a store whose balance is locked, and returns the balance after it.
 * @throws DomainError request_invalid if the store cannot have this balance
 */
export const changeLockedBalance = async (
  transaction: DatabaseTransactionConnection,
  store: Store,
  entry: Omit<NewBalanceEntry, "accountId" | "balanceCents">,
  now: Date,
): Promise<number> => {
  const balanceCents = addToBalance(store, entry.amountCents);
  await recordStoreWrites(transaction, [{ ...entry, accountId: store.id, balanceCents }]);
  await reportLowBalance(transaction, store, { balanceCents }, now);
  return balanceCents;
};

/**
 * Records the events of decided writes of stores whose balances are locked. Of the writes that a balance does not cover, the
 * first since it last rose is reported.
 * @param ledger what the writes leave
 */
export const reportDecisions = async (
  transaction: DatabaseTransactionConnection,
  stores: readonly Store[],
  { balances, refusals }: StoreLedger,
  now: Date,
): Promise<void> => {
  for (const store of stores) {
    const { id, domain, isDepleted } = store;
    const { balanceCents } = balances.get(id) ?? store;
    await reportLowBalance(transaction, store, { balanceCents }, now);
    const refusal = refusals.get(id);
    if (refusal && !isDepleted) {
      await updateStore(transaction, id, { depletedAt: now });
      await recordEvent(transaction, { accountId: id, mode: MODE }, now, {
        type: "balance.depleted",
        data: {
          shop_domain: domain,
          balance_cents: refusal.balanceCents,
          currency: "USD",
          needed_cents: Math.min(Number(refusal.neededCents), Number.MAX_SAFE_INTEGER),
        },
      });
    }
  }
};

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

/**
 * Adds an operator's entry to a store's ledger, once per reference.
 * @throws DomainError record_not_found for an unknown store; request_invalid if the reference has another entry, or the
 *   balance would be negative or beyond the safe integers
 */
export const changeBalance = (
  { db, clock, actor }: OperatorContext,
  { kind, storeId, amountCents, reference: given, note }: OperatorEntry,
) =>
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
