import { setAccountLimit } from "./accountLimits.sql.ts";
import type { Account, AccountChanges } from "./accounts.sql.ts";
import { updateAccount } from "./accounts.sql.ts";
import { requireCustomerOfSubscription } from "./accounts.rules.ts";
import type { NewLimit } from "./limits.rules.ts";
import { getOrganization } from "./getAccount.ts";
import { recordAction } from "./recordAction.ts";
import type { OperatorContext } from "./context.ts";
import { updateProfile } from "./profiles.sql.ts";
import type { ProfileChanges } from "./profile.rules.ts";

/** Returns the changes as the audit log records them: a logo by its hash. */
const describeProfileChanges = ({ logo, ...changes }: ProfileChanges): object => ({
  ...changes,
  ...(logo === undefined ? {} : { logo: logo?.hash ?? null }),
});

/**
 * Changes an organization's settings, limit and public profile, all or none.
 * @throws DomainError record_not_found, or request_invalid for a subscription without a customer
 */
export const updateOrganization = (
  { db, clock, actor }: OperatorContext,
  id: string,
  changes: AccountChanges,
  {
    limit = null,
    profile = null,
  }: { readonly limit?: NewLimit | null; readonly profile?: ProfileChanges | null } = {},
): Promise<Account> =>
  db.transaction(async (transaction) => {
    await updateAccount(transaction, id, changes);
    const account = await getOrganization(transaction, id);
    requireCustomerOfSubscription(account);
    if (limit !== null) {
      await setAccountLimit(transaction, id, limit);
    }
    if (profile !== null) {
      await updateProfile(transaction, id, profile);
    }
    await recordAction(transaction, actor, clock.now(), {
      action: "org.update",
      accountId: id,
      details: {
        ...changes,
        ...(limit === null ? {} : { limit }),
        ...(profile === null ? {} : { profile: describeProfileChanges(profile) }),
      },
    });
    return account;
  });
