import { Option } from "commander";
import type { Command } from "commander";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import type { Account } from "../modules/accounts/accounts.sql.ts";
import { findStore, findStoreByDomain } from "../modules/stores/stores.sql.ts";
import type { Store } from "../modules/stores/stores.sql.ts";
import { normalizeDomain } from "../modules/stores/stores.rules.ts";
import {
  getAccount,
  getNamedOrganization,
  getOrganization,
} from "../modules/accounts/getAccount.ts";
import { parseId, parseSearchText } from "./arguments.ts";
import type { CliContext } from "./context.ts";
import { CommandError, EXIT } from "./exitCodes.ts";

/** The argument of commands for a store. */
export const STORE = ["<store>", "domain or id of the store"] as const;

/**
 * Returns the store with an id or a domain.
 * @throws CommandError with the exit code `notFound`
 */
export const findNamedStore = async (
  db: CommonQueryMethods,
  idOrDomain: string,
): Promise<Store> => {
  const domain = normalizeDomain(idOrDomain);
  const isId = z.guid().safeParse(idOrDomain).success;
  const store = isId
    ? await findStore(db, idOrDomain)
    : domain !== null && (await findStoreByDomain(db, domain));
  if (!store) {
    throw new CommandError(EXIT.notFound, `Store ${idOrDomain} not found. See impact store list.`);
  }
  return store;
};

/** The organization or the store that a command is for. */
export type AccountOptions = { readonly org?: string; readonly store?: string };

/** Adds the options that name an account. */
export const withAccount = (command: Command): Command =>
  command
    .addOption(
      new Option("--org <id>", "id of the organization").argParser(parseId).conflicts("store"),
    )
    .option("--store <store>", STORE[1]);

/** The option of commands that may be limited to an organization. */
export const organizationOption = (): Option =>
  new Option("--org <who>", "name, id or Stripe customer of the organization").argParser(
    parseSearchText,
  );

/**
 * Returns the id of the organization that a command is limited to, or null for all.
 * @throws DomainError record_not_found if there is none; request_invalid if several have the name
 */
export const readAccountFilter = async (
  db: DatabasePool,
  org: string | undefined,
): Promise<string | null> => (org === undefined ? null : (await getNamedOrganization(db, org)).id);

/** Which of the records with an id a command is for. */
export type RecordOwnerOptions = { readonly org?: string };

/** The option of commands that take a record's id: imported records may have that of another account's record. */
export const recordOwnerOption = (): Option =>
  new Option("--org <id>", "organization or store that has the record").argParser(parseId);

/** Opens the database and finds the account that a command names. */
export const openAccount = async (
  { connections }: CliContext,
  { org, store }: AccountOptions,
): Promise<{ readonly db: DatabasePool; readonly account: Account }> => {
  if (store !== undefined) {
    const db = await connections.database();
    return { db, account: await getAccount(db, (await findNamedStore(db, store)).id) };
  }
  if (org !== undefined) {
    const db = await connections.database();
    return { db, account: await getOrganization(db, org) };
  }
  throw new CommandError(EXIT.usage, "Pass --org or --store.");
};
