import { longText, shortText, textOrNumber } from "../records/fields.rules.ts";

/*
 * The customer and the order that a store records impact for, and the filters that find its records again.
 */

export const customerName = () => textOrNumber();
export const customerEmail = shortText;
/** A name, an email address or an id. */
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

/** Selects records by customer; all conditions must hold. */
export type CustomerFilter = {
  /** A part of the name, in any case. */
  readonly name?: string;
  /** The whole name, in any case. */
  readonly exactName?: string;
  /** The whole email address, in any case. Different addresses match nothing. */
  readonly emails?: readonly string[];
  readonly id?: string;
  /** A part of the name, the whole email address or the whole id. */
  readonly any?: string;
};

/** Selects a store's records; all conditions must hold. */
export type ImpactFilter = CustomerFilter & {
  /** One registration, for operators. */
  readonly registrationId?: string;
  /** With or without the leading `#` that shops use. */
  readonly orderId?: string;
  /** Inclusive. */
  readonly from?: Date;
  /** Exclusive. */
  readonly until?: Date;
};

/** One registration of a store, as its lists show it. */
export type ImpactRecord = CustomerDetails & {
  readonly id: string;
  readonly importedId: string | null;
  readonly count: number;
  readonly refundedCount: number;
  /** When it was created, in microseconds. No other record of the list has this time. */
  readonly position: string;
};
