import type { CommonQueryMethods } from "slonik";
import type { Account } from "../../db/accounts/accounts.ts";
import { findAccount } from "../../db/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";

/** @throws DomainError record_not_found, for a store's id too */
export const getOrganization = async (db: CommonQueryMethods, id: string): Promise<Account> => {
  const account = await findAccount(db, id);
  if (account?.type !== "organization") {
    throw new DomainError("record_not_found", `There is no organization ${id}.`);
  }
  return account;
};
