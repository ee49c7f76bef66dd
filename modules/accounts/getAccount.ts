import type { CommonQueryMethods } from "slonik";
import type { Account } from "./accounts.sql.ts";
import { findAccount } from "./accounts.sql.ts";
import { mustExist, requireFound } from "../../runtime/errors.rules.ts";

/**
 * Returns the account that a key or a record refers to.
 * @throws Error if it does not exist, which is a bug: accounts are never deleted
 */
export const getAccount = async (db: CommonQueryMethods, id: string): Promise<Account> =>
  mustExist(await findAccount(db, id), `Account ${id} does not exist.`);

/** @throws DomainError record_not_found, also for the id of a store */
export const getOrganization = async (db: CommonQueryMethods, id: string): Promise<Account> => {
  const account = await findAccount(db, id);
  return requireFound(
    account?.type === "organization" ? account : null,
    `organization ${id} not found; see \`impact org list\``,
  );
};
