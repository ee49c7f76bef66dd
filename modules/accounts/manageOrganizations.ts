import type { CommonQueryMethods } from "slonik";
import { setAccountLimit } from "./accountLimits.sql.ts";
import type { Account, AccountChanges } from "./accounts.sql.ts";
import { insertAccount, updateAccount } from "./accounts.sql.ts";
import type { NewLimit } from "./limits.rules.ts";
import { getOrganization } from "./getAccount.ts";
import { issueFirstKeys } from "./manageKeys.ts";
import type { FirstKeys } from "./manageKeys.ts";
import { recordAction } from "./recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "./context.ts";
import { updateProfile } from "./profiles.sql.ts";
import type { ProfileChanges } from "./profile.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";

/** Changes the settings of an organization, and returns it if it may have them. */
const changeAccount = async (
  transaction: CommonQueryMethods,
  id: string,
  changes: AccountChanges,
): Promise<Account> => {
  await updateAccount(transaction, id, changes);
  const account = await getOrganization(transaction, id);
  if (account.stripeSubscriptionId !== null && account.stripeCustomerId === null) {
    throw invalidRequest("a Stripe subscription requires a Stripe customer");
  }
  return account;
};

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
    const account = await changeAccount(transaction, id, settings);
    await recordAction(transaction, actor, createdAt, {
      action: "org.create",
      accountId: id,
      details: { name, ...settings },
    });
    return { ...account, ...(await issueFirstKeys({ db: transaction, clock, actor }, account)) };
  });

/** Absent settings stay unchanged. */
export type OrganizationUpdate = AccountChanges & {
  readonly limit?: NewLimit | undefined;
  readonly profile?: ProfileChanges | undefined;
};

/**
 * Changes an organization's settings, limit and public profile, all or none.
 * @throws DomainError record_not_found, or request_invalid for a subscription without a customer
 */
export const updateOrganization = (
  { db, clock, actor }: OperatorContext,
  id: string,
  { limit, profile, ...changes }: OrganizationUpdate,
): Promise<Account> =>
  db.transaction(async (transaction) => {
    const account = await changeAccount(transaction, id, changes);
    if (limit) {
      await setAccountLimit(transaction, id, limit);
    }
    if (profile) {
      await updateProfile(transaction, id, profile);
    }
    // A logo by its hash.
    const audited = profile?.logo ? { ...profile, logo: profile.logo.hash } : profile;
    await recordAction(transaction, actor, clock.now(), {
      action: "org.update",
      accountId: id,
      details: { ...changes, limit, profile: audited },
    });
    return account;
  });
