import type { DatabaseTransactionConnection } from "slonik";
import type { LockedBalance } from "./balances.sql.ts";
import { markBalanceDepleted } from "./balances.sql.ts";
import type { BalanceRefusal, StoreWriteDecision } from "./storeWrites.rules.ts";
import { becomesLow } from "./stores.rules.ts";
import { recordEvent } from "../events/recordEvent.ts";
import { getStore } from "./getStore.ts";

/** Test keys spend nothing. */
const MODE = "live";

/** Records that a store's balance is low, in the transaction that makes it low. */
export const recordLowBalance = async (
  transaction: DatabaseTransactionConnection,
  {
    accountId,
    balanceCents,
    lowBalanceCents,
  }: Pick<LockedBalance, "accountId" | "balanceCents" | "lowBalanceCents">,
  now: Date,
): Promise<void> => {
  const { domain } = await getStore(transaction, accountId);
  await recordEvent(transaction, { accountId, mode: MODE }, now, {
    type: "balance.low",
    data: {
      shop_domain: domain,
      balance_cents: balanceCents,
      currency: "USD",
      threshold_cents: lowBalanceCents,
    },
  });
};

/**
 * Records `balance.low` if a payment makes a store's balance low.
 * @param before the balance until then
 */
export const reportLowBalance = async (
  transaction: DatabaseTransactionConnection,
  before: LockedBalance,
  balanceCents: number,
  now: Date,
): Promise<void> => {
  if (becomesLow(before, { ...before, balanceCents })) {
    await recordLowBalance(transaction, { ...before, balanceCents }, now);
  }
};

/** Records `balance.depleted` for the first write that a locked balance does not cover since it last rose. */
export const reportRefusal = async (
  transaction: DatabaseTransactionConnection,
  { isDepleted }: Pick<LockedBalance, "isDepleted">,
  { accountId, balanceCents, neededCents }: BalanceRefusal,
  now: Date,
): Promise<void> => {
  if (isDepleted) {
    return;
  }
  await markBalanceDepleted(transaction, accountId, now);
  const { domain } = await getStore(transaction, accountId);
  await recordEvent(transaction, { accountId, mode: MODE }, now, {
    type: "balance.depleted",
    data: {
      shop_domain: domain,
      balance_cents: balanceCents,
      currency: "USD",
      needed_cents: Math.min(neededCents, Number.MAX_SAFE_INTEGER),
    },
  });
};

/** Records the events of decided writes of stores whose balances are locked. */
export const reportDecisions = async (
  transaction: DatabaseTransactionConnection,
  balances: readonly LockedBalance[],
  decisions: readonly StoreWriteDecision<{ readonly accountId: string }>[],
  now: Date,
): Promise<void> => {
  const latest = new Map<string, number>();
  const refusals = new Map<string, BalanceRefusal>();
  for (const decision of decisions) {
    if (decision.kind === "accepted") {
      latest.set(decision.write.accountId, decision.balanceCents);
    } else if (decision.kind === "rejected" && decision.refusal !== null) {
      const { refusal } = decision;
      refusals.set(refusal.accountId, refusals.get(refusal.accountId) ?? refusal);
    }
  }
  for (const balance of balances) {
    const { accountId, balanceCents } = balance;
    await reportLowBalance(transaction, balance, latest.get(accountId) ?? balanceCents, now);
    const refusal = refusals.get(accountId);
    if (refusal) {
      await reportRefusal(transaction, balance, refusal, now);
    }
  }
};
