import type { DatabaseTransactionConnection } from "slonik";
import { updateAccountLimits } from "./accountLimits.sql.ts";
import type { Account, AccountChanges } from "./accounts.sql.ts";
import { updateAccount } from "./accounts.sql.ts";
import { requireCustomerOfSubscription } from "./accounts.rules.ts";
import type { NewLimits } from "./limits.rules.ts";
import { getOrganization } from "./getAccount.ts";
import { recordAction } from "./recordAction.ts";
import type { OperatorContext } from "./context.ts";
import { deleteUnusedLogo, insertLogo, lockProfile, updateProfile } from "./profiles.sql.ts";
import type { Profile, NewLogo } from "./profile.rules.ts";

/** Absent settings stay unchanged; null restores the default. */
export type ProfileChanges = Partial<Omit<Profile, "logo">> & { readonly logo?: NewLogo | null };

/** Returns the changes as the audit log records them: a logo by its hash. */
const describeProfileChanges = ({ logo, ...changes }: ProfileChanges): object => ({
  ...changes,
  ...(logo === undefined ? {} : { logo: logo?.hash ?? null }),
});

/** Changes the profile of an account, in the caller's transaction. A logo that no profile has any more is deleted. */
const updateAccountProfile = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  changes: ProfileChanges,
): Promise<void> => {
  const before = await lockProfile(transaction, accountId);
  if (changes.logo) {
    await insertLogo(transaction, changes.logo);
  }
  const after: Profile = { ...before, ...changes };
  await updateProfile(transaction, accountId, after);
  if (before.logo !== null && before.logo.hash !== after.logo?.hash) {
    await deleteUnusedLogo(transaction, before.logo.hash);
  }
};

/**
 * Changes an organization's settings, limits and public profile, all or none.
 * @throws DomainError record_not_found, or request_invalid for a subscription without a customer
 */
export const updateOrganization = (
  { db, clock, actor }: OperatorContext,
  id: string,
  changes: AccountChanges,
  {
    limits = null,
    profile = null,
  }: { readonly limits?: NewLimits | null; readonly profile?: ProfileChanges | null } = {},
): Promise<Account> =>
  db.transaction(async (transaction) => {
    await updateAccount(transaction, id, changes);
    const account = await getOrganization(transaction, id);
    requireCustomerOfSubscription(account);
    if (limits !== null) {
      await updateAccountLimits(transaction, id, limits);
    }
    if (profile !== null) {
      await updateAccountProfile(transaction, id, profile);
    }
    await recordAction(transaction, actor, clock.now(), {
      action: "org.update",
      accountId: id,
      details: {
        ...changes,
        ...(limits === null ? {} : { limits }),
        ...(profile === null ? {} : { profile: describeProfileChanges(profile) }),
      },
    });
    return account;
  });
