import type { CommonQueryMethods } from "slonik";
import type { Account } from "../../../db/accounts/accounts.ts";
import { getAccount } from "../../../services/accounts/getAccount.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { findNamedStore } from "../stores/findNamedStore.ts";

export type OwnerOptions = { readonly org?: string; readonly store?: string };

/** Returns the account of the organization or the store that a command is for. */
export const findOwner = async (
  db: CommonQueryMethods,
  { org, store }: OwnerOptions,
): Promise<Account> => {
  if (org !== undefined) {
    return getOrganization(db, org);
  }
  if (store !== undefined) {
    return getAccount(db, (await findNamedStore(db, store)).id);
  }
  throw new CommandError(EXIT.usage, "Pass --org or --store.");
};
