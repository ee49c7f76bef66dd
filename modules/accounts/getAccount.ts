import type { CommonQueryMethods } from "slonik";
import type { Account } from "./accounts.sql.ts";
import { findAccount, listOrganizationsNamed } from "./accounts.sql.ts";
import { isUuid } from "../records/fields.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";

/**
 * Returns the account that a key or a record refers to.
 * @throws Error if it does not exist, which is a bug: accounts are never deleted
 */
export const getAccount = async (db: CommonQueryMethods, id: string): Promise<Account> => {
  const account = await findAccount(db, id);
  if (!account) {
    throw new Error(`Account ${id} does not exist.`);
  }
  return account;
};

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

/**
 * Returns the organization that an operator names by its id, its name or a Stripe customer that it has had; null if there is
 * none.
 * @throws DomainError request_invalid if there are several
 */
export const findNamedOrganization = async (
  db: CommonQueryMethods,
  named: string,
): Promise<Account | null> => {
  if (isUuid(named)) {
    const account = await findAccount(db, named);
    return account?.type === "organization" ? account : null;
  }
  const [organization = null, ...others] = await listOrganizationsNamed(db, named);
  if (others.length > 0) {
    throw invalidRequest(
      `${others.length + 1} organizations are named ${named}; pass an id, which \`impact org list\` shows`,
    );
  }
  return organization;
};

/** @throws DomainError record_not_found if there is none; request_invalid if there are several */
export const getNamedOrganization = async (
  db: CommonQueryMethods,
  named: string,
): Promise<Account> => {
  const organization = await findNamedOrganization(db, named);
  if (!organization) {
    throw new DomainError(
      "record_not_found",
      `organization ${named} not found; see \`impact org list\``,
    );
  }
  return organization;
};

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
