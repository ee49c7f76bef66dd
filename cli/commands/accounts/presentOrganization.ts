import type { Account } from "../../../db/accounts/accounts.ts";
import type { CliContext } from "../../context.ts";
import { printRecord } from "../../output/print.ts";

/** An organization as programs read it. */
export const presentOrganization = (account: Account) => ({
  id: account.id,
  name: account.name,
  fractional_counting: account.fractionalCounting,
  billing_day: account.billingDay,
  stripe_customer_id: account.stripeCustomerId,
  stripe_subscription_id: account.stripeSubscriptionId,
  charity_provider: account.charityProvider,
  subscription_policy: account.subscriptionPolicy,
  created_at: account.createdAt,
});

export const printOrganization = ({ io }: CliContext, account: Account): void => {
  printRecord(io, {
    id: account.id,
    name: account.name,
    "fractional counting": account.fractionalCounting,
    "billing day": account.billingDay,
    "stripe customer": account.stripeCustomerId,
    "stripe subscription": account.stripeSubscriptionId,
    "charity provider": account.charityProvider,
    "subscription policy": account.subscriptionPolicy,
    created: account.createdAt,
  });
};
