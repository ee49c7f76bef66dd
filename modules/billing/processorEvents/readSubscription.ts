import { getAccount } from "../../accounts/getAccount.ts";
import { saveBillingPeriod } from "../billingPeriods.sql.ts";
import type { BillingContext } from "../context.ts";
import { requireStripe } from "../createBilling.ts";
import { saveSubscriptionState } from "./stripeSubscriptions.sql.ts";
import { KINDS } from "../../records/owner.rules.ts";
import type { SubscriptionState } from "../subscriptions.rules.ts";

/**
 * Reads a subscription of an account at Stripe, and stores its state and its current billing periods.
 * @throws Error if Stripe is not configured or cannot be reached
 */
export const readSubscription = async (
  { db, clock, billing }: BillingContext,
  { accountId, subscriptionId }: { readonly accountId: string; readonly subscriptionId: string },
  signal: AbortSignal,
): Promise<SubscriptionState> => {
  const stripe = requireStripe(billing);
  // Read before the call: a change during the call makes the state older than it may be, never newer.
  const readAt = clock.now();
  const read = await stripe.readSubscription(subscriptionId, signal);
  const { customerId: _, periods, ...state } = read;
  await db.transaction(async (transaction) => {
    const own = { accountId, subscriptionId };
    const isStored = await saveSubscriptionState(transaction, own, state, readAt);
    for (const kind of KINDS) {
      const period = periods[kind];
      if (isStored && period !== null) {
        await saveBillingPeriod(transaction, own, kind, { ...period, readAt });
      }
    }
  });
  return read;
};

export const refreshSubscription = async (
  context: BillingContext,
  accountId: string,
  signal: AbortSignal,
): Promise<void> => {
  const { stripeSubscriptionId: subscriptionId } = await getAccount(context.db, accountId);
  if (subscriptionId !== null) {
    await readSubscription(context, { accountId, subscriptionId }, signal);
  }
};
