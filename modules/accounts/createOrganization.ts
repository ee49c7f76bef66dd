import type { Account, NewAccount } from "./accounts.sql.ts";
import { insertAccount, updateAccount } from "./accounts.sql.ts";
import { requireCustomerOfSubscription } from "./accounts.rules.ts";
import { issueFirstKeys } from "./issueKey.ts";
import type { FirstKeys } from "./issueKey.ts";
import { recordAction } from "./recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "./context.ts";

export type NewOrganization = Pick<
  Account,
  "name" | "fractionalCounting" | "billingDay" | "stripeCustomerId" | "stripeSubscriptionId"
> &
  Partial<Pick<Account, "subscriptionPolicy">>;

export type CreatedOrganization = FirstKeys & { readonly id: string; readonly name: string };

/**
 * Creates an organization with one key for each mode. The keys are returned here and stored nowhere.
 * @throws DomainError request_invalid for a subscription without a customer, or another account's customer
 */
export const createOrganization = (
  { db, clock, actor }: OperatorContext,
  organization: NewOrganization,
): Promise<CreatedOrganization> =>
  db.transaction(async (transaction) => {
    const { subscriptionPolicy, ...settings } = organization;
    requireCustomerOfSubscription(settings);
    const account: NewAccount = {
      ...settings,
      id: newId(),
      type: "organization",
      createdAt: clock.now(),
    };
    await insertAccount(transaction, account);
    if (subscriptionPolicy !== undefined) {
      await updateAccount(transaction, account.id, { subscriptionPolicy });
    }
    await recordAction(transaction, actor, account.createdAt, {
      action: "org.create",
      accountId: account.id,
      details: organization,
    });
    const keys = await issueFirstKeys({ db: transaction, clock, actor }, account);
    return { id: account.id, name: account.name, ...keys };
  });
