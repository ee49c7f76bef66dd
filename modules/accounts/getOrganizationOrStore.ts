import type { CommonQueryMethods } from "slonik";
import type { Account } from "./accounts.sql.ts";
import { findAccount } from "./accounts.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";

/** @throws DomainError record_not_found */
export const getOrganizationOrStore = async (
  db: CommonQueryMethods,
  id: string,
): Promise<Account> => {
  const account = await findAccount(db, id);
  if (!account) {
    throw new DomainError(
      "record_not_found",
      `organization or store ${id} not found; see \`impact org list\` and \`impact store list\``,
    );
  }
  return account;
};
