import type { Account, AccountChanges } from "./accounts.sql.ts";
import { insertAccount, updateAccount } from "./accounts.sql.ts";
import { requireCustomerOfSubscription } from "./accounts.rules.ts";
import { getOrganization } from "./getAccount.ts";
import { issueFirstKeys } from "./issueKey.ts";
import type { FirstKeys } from "./issueKey.ts";
import { recordAction } from "./recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "./context.ts";

export type NewOrganization = AccountChanges & Pick<Account, "name">;

export type CreatedOrganization = Account & FirstKeys;

/**
 * Creates an organization with one key for each mode. The keys are returned here and stored nowhere.
 * @throws DomainError request_invalid for a subscription without a customer, or another account's customer
 */
export const createOrganization = (
  { db, clock, actor }: OperatorContext,
  { name, ...settings }: NewOrganization,
): Promise<CreatedOrganization> =>
  db.transaction(async (transaction) => {
    const id = newId();
    const createdAt = clock.now();
    await insertAccount(transaction, { id, type: "organization", name, createdAt });
    await updateAccount(transaction, id, settings);
    const account = await getOrganization(transaction, id);
    requireCustomerOfSubscription(account);
    await recordAction(transaction, actor, createdAt, {
      action: "org.create",
      accountId: id,
      details: { name, ...settings },
    });
    return { ...account, ...(await issueFirstKeys({ db: transaction, clock, actor }, account)) };
  });
