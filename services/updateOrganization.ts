import type { DatabasePool } from "slonik";
import type { Account, AccountChanges } from "../db/accounts.ts";
import { updateAccount } from "../db/accounts.ts";
import { DomainError } from "../domain/errors.ts";

/**
 * Changes what an operator may change of an organization.
 * @throws DomainError record_not_found, or request_invalid for a subscription without a customer
 */
export const updateOrganization = (
  { db }: { readonly db: DatabasePool },
  id: string,
  changes: AccountChanges,
): Promise<Account> =>
  db.transaction(async (transaction) => {
    const account = await updateAccount(transaction, id, changes);
    if (account?.type !== "organization") {
      throw new DomainError("record_not_found", `there is no organization ${id}`);
    }
    if (account.stripeSubscriptionId !== null && account.stripeCustomerId === null) {
      throw new DomainError("request_invalid", "a Stripe subscription needs a Stripe customer");
    }
    return account;
  });
