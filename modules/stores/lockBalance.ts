import type { DatabaseTransactionConnection } from "slonik";
import { lockBalances, markBalanceDepleted } from "./balances.sql.ts";
import type { LockedBalance } from "./balances.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { StoreLedger } from "./storeWrites.rules.ts";
import { becomesLow } from "./stores.rules.ts";
import { recordEvent } from "../events/recordEvent.ts";

/**
 * Locks a store's balance until the transaction ends.
 * @throws DomainError record_not_found
 */
export const lockBalance = async (
  transaction: DatabaseTransactionConnection,
  storeId: string,
): Promise<LockedBalance> => {
  const [balance] = await lockBalances(transaction, [storeId]);
  if (!balance) {
    throw new DomainError("record_not_found", `store ${storeId} not found`);
  }
  return balance;
};

/** Test keys spend nothing. */
const MODE = "live";

/**
 * Records `balance.low` if a change of a store's balance or of its threshold makes the balance low.
 * @param before the balance until then
 */
export const reportLowBalance = async (
  transaction: DatabaseTransactionConnection,
  before: LockedBalance,
  change: Partial<Pick<LockedBalance, "balanceCents" | "lowBalanceCents">>,
  now: Date,
): Promise<void> => {
  const after = { ...before, ...change };
  if (becomesLow(before, after)) {
    await recordEvent(transaction, { accountId: after.accountId, mode: MODE }, now, {
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
 * Records the events of decided writes of stores whose balances are locked. Of the writes that a balance does not cover, the
 * first since it last rose is reported.
 * @param ledger what the writes leave
 */
export const reportDecisions = async (
  transaction: DatabaseTransactionConnection,
  balances: readonly LockedBalance[],
  ledger: StoreLedger,
  now: Date,
): Promise<void> => {
  for (const balance of balances) {
    const { accountId, domain, isDepleted } = balance;
    const { balanceCents } = ledger.balances.get(accountId) ?? balance;
    await reportLowBalance(transaction, balance, { balanceCents }, now);
    const refusal = ledger.refusals.find((each) => each.accountId === accountId);
    if (refusal && !isDepleted) {
      await markBalanceDepleted(transaction, accountId, now);
      await recordEvent(transaction, { accountId, mode: MODE }, now, {
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
