import type { Account } from "../accounts/accounts.sql.ts";
import type { DonationSubscription } from "./donationSubscriptions.sql.ts";
import { findDonationSubscription } from "./donationSubscriptions.sql.ts";
import type { Mode } from "../records/owner.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { BillingContext } from "../billing/context.ts";

/**
 * Returns an account's donation subscription. One with another processor or subscription than the account has now has
 * ended.
 */
export const readDonationSubscription = async (
  { db, billing }: Pick<BillingContext, "db" | "billing">,
  account: Account,
  mode: Mode,
): Promise<DonationSubscription | null> => {
  const subscription = await findDonationSubscription(db, { accountId: account.id, mode });
  const processor = billing.processorFor(account, mode);
  const isCurrent =
    subscription?.processor === processor &&
    (processor === "ledger" || subscription.subscriptionId === account.stripeSubscriptionId);
  return subscription && { ...subscription, hasEnded: subscription.hasEnded || !isCurrent };
};

/** @throws DomainError donations_not_subscribed */
export const requireDonationSubscription = async (
  context: Pick<BillingContext, "db" | "billing">,
  account: Account,
): Promise<void> => {
  const subscription = await readDonationSubscription(context, account, "live");
  if (!subscription?.activeSince || subscription.hasEnded) {
    throw new DomainError("donations_not_subscribed", "donation subscription not active");
  }
};
