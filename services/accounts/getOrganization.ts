import type { CommonQueryMethods } from "slonik";
import type { Account } from "../../db/accounts/accounts.ts";
import { findAccount } from "../../db/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";

/** @throws DomainError record_not_found, also for the id of a store */
export const getOrganization = async (db: CommonQueryMethods, id: string): Promise<Account> => {
  const account = await findAccount(db, id);
  if (account?.type !== "organization") {
    throw new DomainError(
      "record_not_found",
      `organization ${id} not found; see \`impact org list\``,
    );
  }
  return account;
};
