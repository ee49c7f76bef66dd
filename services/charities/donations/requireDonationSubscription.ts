import type { DatabasePool } from "slonik";
import type { Account } from "../../../db/accounts/accounts.ts";
import { findDonationSubscription } from "../../../db/charities/donationSubscriptions.ts";
import { DomainError } from "../../../domain/errors.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";

/** Returns when an account's donation subscription became active with its current processor, or null if it is not active. */
const readSubscribedSince = async (
  { db, billing }: { readonly db: DatabasePool; readonly billing: Billing },
  account: Account,
): Promise<Date | null> => {
  const subscription = await findDonationSubscription(db, { accountId: account.id, mode: "live" });
  const processor = billing.processorFor(account, "live");
  const isCurrent =
    subscription?.processor === processor &&
    (processor === "ledger" || subscription.subscriptionId === account.stripeSubscriptionId);
  return isCurrent && !subscription.hasEnded ? subscription.activeSince : null;
};

/** @throws DomainError donations_not_subscribed */
export const requireDonationSubscription = async (
  deps: { readonly db: DatabasePool; readonly billing: Billing },
  account: Account,
): Promise<void> => {
  if ((await readSubscribedSince(deps, account)) === null) {
    throw new DomainError("donations_not_subscribed", "donation subscription not active");
  }
};
