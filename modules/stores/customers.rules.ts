import { longText, shortText, textOrNumber } from "../records/fields.rules.ts";

export const customerName = () => textOrNumber();
export const customerEmail = shortText;
export const anyCustomer = shortText;
export const orderId = () => textOrNumber();
export const notes = longText;

const SHOPIFY_CUSTOMER = /^gid:\/\/shopify\/Customer\/(\d+)$/u;

/** Returns an id as it is stored: without Shopify's prefix. */
export const normalizeCustomerId = (given: string): string =>
  SHOPIFY_CUSTOMER.exec(given.trim())?.[1] ?? given;

export const customerId = () => textOrNumber().transform(normalizeCustomerId);

/** What a write says about its customer and order; null where nothing was given. */
export type CustomerDetails = {
  readonly customerName: string | null;
  readonly customerEmail: string | null;
  readonly customerId: string | null;
  readonly orderId: string | null;
  readonly notes: string | null;
};

/** Selects records by customer; all conditions that are given must hold. */
export type CustomerFilter = {
  /** A part of the name, in any case. */
  readonly name?: string | undefined;
  /** The whole email address, in any case. Under two names, different addresses match nothing. */
  readonly email?: string | undefined;
  readonly emailAlias?: string | undefined;
  readonly id?: string | undefined;
  /** A part of the name, the whole email address or the whole id. */
  readonly any?: string | undefined;
};

/** Selects a store's records; all conditions that are given must hold. */
export type ImpactFilter = CustomerFilter & {
  /** With or without the leading `#` that shops use. */
  readonly orderId?: string | undefined;
  /** Inclusive. */
  readonly from?: Date | undefined;
  /** Exclusive. */
  readonly until?: Date | undefined;
};

/** Selects what a refund takes back. Unlike in the lists, a name must match as a whole, since money is involved. */
export type RefundFilter = {
  readonly [Name in "wholeName" | "email" | "id" | "orderId"]?: string | undefined;
};

export const conditionsOf = (filter: ImpactFilter | RefundFilter): readonly string[] =>
  Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [name]));

/** By what a customer's records are found; any of them is enough. */
export type CustomerIdentity = {
  readonly ids: readonly string[];
  /** In any case; the database lower-cases them as it does those of the records. */
  readonly emails: readonly string[];
  /** Without the leading `#` that shops use. */
  readonly orderIds: readonly string[];
};

/** With the names, in lower case, under which other records may be found. */
export type KnownCustomer = CustomerIdentity & { readonly names: readonly string[] };

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

/** Returns what was given in the form in which the database compares it. */
export const identifyCustomer = ({ ids, emails, orderIds }: CustomerIdentity) => ({
  ids: ids.map((id) => normalizeCustomerId(id.trim()).normalize()),
  emails: emails.map((email) => email.trim()),
  orderIds: orderIds.flatMap((id) => formsOfOrder(id.trim())),
});

/** No person has as many records in one store. */
export const MAXIMUM_CUSTOMER_RECORDS = 10_000;
