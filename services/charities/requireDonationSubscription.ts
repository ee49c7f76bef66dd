import type { DatabasePool } from "slonik";
import { findDonationSubscription } from "../../db/charities/donationSubscriptions.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Billing } from "../../providers/billing/createBilling.ts";
import { getAccount } from "../accounts/getAccount.ts";

/** Returns when an account's donation subscription became active with its current processor, or null if it is not active. */
const readSubscribedSince = async (
  { db, billing }: { readonly db: DatabasePool; readonly billing: Billing },
  accountId: string,
): Promise<Date | null> => {
  const [account, subscription] = await Promise.all([
    getAccount(db, accountId),
    findDonationSubscription(db, { accountId, mode: "live" }),
  ]);
  const processor = billing.processorFor(account, "live");
  const isCurrent =
    subscription?.processor === processor &&
    (processor === "ledger" || subscription.subscriptionId === account.stripeSubscriptionId);
  return isCurrent && !subscription.hasEnded ? subscription.activeSince : null;
};

/** @throws DomainError donations_not_subscribed */
export const requireDonationSubscription = async (
  deps: { readonly db: DatabasePool; readonly billing: Billing },
  accountId: string,
): Promise<void> => {
  if ((await readSubscribedSince(deps, accountId)) === null) {
    throw new DomainError("donations_not_subscribed", "donation subscription not active");
  }
};
