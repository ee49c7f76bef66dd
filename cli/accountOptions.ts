import type { CommonQueryMethods } from "slonik";
import { findAccount, listAccountsNamed } from "../modules/accounts/accounts.sql.ts";
import type { Account } from "../modules/accounts/accounts.sql.ts";
import { isUuid } from "../modules/records/fields.rules.ts";
import { findStore } from "../modules/stores/stores.sql.ts";
import type { Store } from "../modules/stores/stores.sql.ts";
import { normalizeDomain } from "../modules/stores/stores.rules.ts";
import { parseSearchText } from "./arguments.ts";
import { invalidRequest, requireFound } from "../runtime/errors.rules.ts";

export const ORGANIZATION = [
  "<org>",
  "id, name or Stripe customer of the organization",
  parseSearchText,
] as const;
export const STORE = ["<store>", "domain or id of the store", parseSearchText] as const;

export const ACCOUNT_OPTION = [
  "--org <account>",
  "id, name, domain or Stripe customer of an organization or a store",
  parseSearchText,
] as const;

export const ORGANIZATION_OPTION = [
  "--org <organization>",
  ORGANIZATION[1],
  parseSearchText,
] as const;

/**
 * Returns the account that an operator names; null if there is none.
 * @throws DomainError request_invalid if there are several
 */
export const findNamedAccount = async (
  db: CommonQueryMethods,
  named: string,
): Promise<Account | null> => {
  if (isUuid(named)) {
    return findAccount(db, named);
  }
  const domain = normalizeDomain(named) ?? named;
  const [account = null, ...others] = await listAccountsNamed(db, [named, domain]);
  if (others.length > 0) {
    throw invalidRequest(
      `${others.length + 1} accounts are named ${named}. Pass an id, which impact find shows.`,
    );
  }
  return account;
};

/** @throws DomainError record_not_found, or request_invalid if there are several */
export const getNamedAccount = async (db: CommonQueryMethods, named: string): Promise<Account> => {
  const message = `Organization or store ${named} not found. See impact org list and impact store list.`;
  return requireFound(await findNamedAccount(db, named), message);
};

/** @throws DomainError request_invalid if the account is a store */
export const requireOrganization = (account: Account): Account => {
  if (account.type === "store") {
    throw invalidRequest(
      `${account.name} is a store, which has no usage, statement or public page. What it paid is in impact export balance.`,
    );
  }
  return account;
};

export const readAccountFilter = async (
  db: CommonQueryMethods,
  org: string | undefined,
): Promise<string | null> => (org === undefined ? null : (await getNamedAccount(db, org)).id);

/** @throws DomainError record_not_found, or request_invalid if several accounts have the name */
export const findNamedStore = async (db: CommonQueryMethods, named: string): Promise<Store> => {
  const account = await findNamedAccount(db, named);
  const store = account && (await findStore(db, account.id));
  return requireFound(store, `Store ${named} not found. See impact store list.`);
};
