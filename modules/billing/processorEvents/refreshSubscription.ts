import { saveBillingPeriod } from "../billingPeriods.sql.ts";
import { saveSubscriptionState } from "./stripeSubscriptions.sql.ts";
import { KINDS } from "../../records/owner.rules.ts";
import { getAccount } from "../../accounts/getAccount.ts";
import type { BillingContext } from "../context.ts";

/**
 * Reads an account's subscription at Stripe, and stores its state and its current billing periods. An account without a
 * subscription is skipped.
 * @throws Error if Stripe is not configured or cannot be reached
 */
export const refreshSubscription = async (
  { db, clock, billing }: BillingContext,
  accountId: string,
  signal: AbortSignal,
): Promise<void> => {
  const { stripeSubscriptionId: subscriptionId } = await getAccount(db, accountId);
  if (subscriptionId === null) {
    return;
  }
  const stripe = billing.findProcessor("stripe", "live");
  if (!stripe) {
    throw new Error("Stripe is not configured.");
  }
  // Read before the call: a change during the call makes the state older than it may be, never newer.
  const readAt = clock.now();
  const state = await stripe.readSubscription(subscriptionId, signal);
  await db.transaction(async (transaction) => {
    await saveSubscriptionState(transaction, { accountId, subscriptionId }, state, readAt);
    for (const kind of KINDS) {
      const period = state.periods[kind];
      if (period !== null) {
        await saveBillingPeriod(transaction, { accountId, subscriptionId, kind }, period, readAt);
      }
    }
  });
};
