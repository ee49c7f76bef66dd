import { updateAccountLimits } from "../../db/accounts/accountLimits.ts";
import type { Account, AccountChanges } from "../../db/accounts/accounts.ts";
import { updateAccount } from "../../db/accounts/accounts.ts";
import { readIsKnownTimeZone } from "../../db/accounts/timeZones.ts";
import { requireCustomerOfSubscription } from "../../domain/accounts/accounts.ts";
import type { NewLimits } from "../../domain/accounts/limits.ts";
import { invalidRequest } from "../../domain/errors.ts";
import { describeProfileChanges, updateAccountProfile } from "../dashboard/updateAccountProfile.ts";
import type { ProfileChanges } from "../dashboard/updateAccountProfile.ts";
import { getOrganization } from "./getOrganization.ts";
import { recordAction } from "./recordAction.ts";
import type { OperatorDependencies } from "./recordAction.ts";

/**
 * Changes an organization's settings, limits and public profile, all or none.
 * @throws DomainError record_not_found, or request_invalid for a subscription without a customer or a time zone that
 * the database does not know
 */
export const updateOrganization = (
  { db, clock, actor }: OperatorDependencies,
  id: string,
  changes: AccountChanges,
  {
    limits = null,
    profile = null,
  }: { readonly limits?: NewLimits | null; readonly profile?: ProfileChanges | null } = {},
): Promise<Account> =>
  db.transaction(async (transaction) => {
    const { timeZone = null } = changes;
    if (timeZone !== null && !(await readIsKnownTimeZone(transaction, timeZone))) {
      throw invalidRequest(`the database does not support the time zone ${timeZone}`);
    }
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
