import type { CommonQueryMethods } from "slonik";
import type { Account } from "./accounts.sql.ts";
import { findAccount } from "./accounts.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";

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
