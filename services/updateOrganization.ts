import type { DatabasePool } from "slonik";
import type { Account, AccountChanges } from "../db/accounts.ts";
import { updateAccount } from "../db/accounts.ts";
import { deleteBillingPeriods } from "../db/billingPeriods.ts";
import { requireCustomerOfSubscription } from "../domain/accounts.ts";
import { getOrganization } from "./getOrganization.ts";

/**
 * Changes what an operator may change of an organization. Another customer or subscription has another billing period,
 * so the mirrored one is forgotten with it.
 * @throws DomainError record_not_found, or request_invalid for a subscription without a customer
 */
export const updateOrganization = (
  { db }: { readonly db: DatabasePool },
  id: string,
  changes: AccountChanges,
): Promise<Account> =>
  db.transaction(async (transaction) => {
    await updateAccount(transaction, id, changes);
    const account = await getOrganization(transaction, id);
    requireCustomerOfSubscription(account);
    if (changes.stripeCustomerId !== undefined || changes.stripeSubscriptionId !== undefined) {
      await deleteBillingPeriods(transaction, id);
    }
    return account;
  });
