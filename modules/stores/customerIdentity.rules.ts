import { normalizeCustomerId } from "./customers.rules.ts";

/** By what a customer's records are found; any of them is enough. */
export type CustomerIdentity = {
  readonly ids: readonly string[];
  /** In any case; the database lower-cases them as it does those of the records. */
  readonly emails: readonly string[];
  /** Without the leading `#` that shops use. */
  readonly orderIds: readonly string[];
};

/** The identity of a customer, and the names, in lower case, under which other records may be found. */
export type KnownCustomer = {
  readonly identity: CustomerIdentity;
  readonly names: readonly string[];
};

const SHOPIFY_ORDER = /^(?:gid:\/\/shopify\/Order\/)?(\d+)$/u;

/**
 * Returns the forms in which records may have an order. Records keep an id of Shopify as it was given, with its prefix or
 * without; with a `#`, a number is an order's name.
 */
const formsOfOrder = (given: string): readonly string[] => {
  const number = SHOPIFY_ORDER.exec(given)?.[1];
  return number === undefined
    ? [given.replace(/^#+/u, "")]
    : [number, `gid://shopify/Order/${number}`];
};

/** Returns what was given in the form in which records are searched. */
export const identifyCustomer = ({
  ids,
  emails,
  orderIds,
}: CustomerIdentity): CustomerIdentity => ({
  ids: ids.map((id) => normalizeCustomerId(id.trim())),
  emails: emails.map((email) => email.trim()),
  orderIds: orderIds.flatMap((id) => formsOfOrder(id.trim())),
});

const union = (left: readonly string[], right: readonly string[]): readonly string[] => [
  ...new Set([...left, ...right]),
];

/** No person has as many records in one store. */
export const MAXIMUM_CUSTOMER_RECORDS = 10_000;

/**
 * Adds the id to which given email addresses lead. Several ids are several customers who share an address, such as that
 * of the shop itself, so they add nothing.
 */
export const addOnlyId = (
  identity: CustomerIdentity,
  foundIds: readonly string[],
): CustomerIdentity => {
  const ids = union(identity.ids, foundIds);
  return ids.length === 1 ? { ...identity, ids } : identity;
};

/** Adds email addresses that the customer does not share. */
export const addEmails = (
  identity: CustomerIdentity,
  ownEmails: readonly string[],
): CustomerIdentity => ({ ...identity, emails: union(identity.emails, ownEmails) });
