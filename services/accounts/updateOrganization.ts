import type { DatabasePool } from "slonik";
import type { Account, AccountChanges } from "../../db/accounts/accounts.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import { requireCustomerOfSubscription } from "../../domain/accounts/accounts.ts";
import { getOrganization } from "./getOrganization.ts";

/**
 * Changes an organization's settings.
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
    return account;
  });
