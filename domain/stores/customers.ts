import { z } from "zod";
import { text } from "../fields.ts";

/*
 * For whom and for which order a store's impact is recorded, and how these are found again.
 */

const trimmed = (maximumLength: number) => text(maximumLength).transform((given) => given.trim());

export const customerName = () => trimmed(200);
export const customerEmail = () => trimmed(320);
/** A name, an address or an id: as long as the longest of them. */
export const anyCustomer = () => trimmed(320);
export const orderId = () => trimmed(255);
export const notes = () => trimmed(1000);

const SHOPIFY_CUSTOMER = /^gid:\/\/shopify\/Customer\/(\d+)$/u;

/** An id as it is kept: without Shopify's prefix. */
export const normalizeCustomerId = (given: string): string =>
  SHOPIFY_CUSTOMER.exec(given)?.[1] ?? given;

/** Text or an integer; kept as text, since ids pass 2^53. */
export const customerId = () =>
  z
    .union([trimmed(255), z.int().transform(String)], {
      error: (issue) =>
        issue.input === undefined
          ? "required"
          : "must be a string of at most 255 characters or an integer",
    })
    .transform(normalizeCustomerId);

/** Null where it is not known. */
export type CustomerDetails = {
  readonly customerName: string | null;
  readonly customerEmail: string | null;
  readonly customerId: string | null;
  readonly orderId: string | null;
  readonly notes: string | null;
};

/** Which customers' records; all conditions must hold. */
export type CustomerFilter = {
  /** A part of the name, whatever the case. */
  readonly name?: string;
  /** The whole name, whatever the case. */
  readonly exactName?: string;
  /** The whole address, whatever the case; several can all hold only if they are one. */
  readonly emails?: readonly string[];
  readonly id?: string;
  /** What the name contains or the address or the id is. */
  readonly any?: string;
};

/** Which of a store's records to list; all conditions must hold. */
export type ImpactFilter = CustomerFilter & {
  /** With or without the `#` that shops write before it. */
  readonly orderId?: string;
  /** First instant that belongs to the list. */
  readonly from?: Date;
  /** First instant that no longer does. */
  readonly until?: Date;
};

/** One registration of a store as its lists show it. */
export type ImpactRecord = CustomerDetails & {
  readonly id: string;
  readonly count: number;
  readonly refundedCount: number;
  readonly createdAt: Date;
  /** In the database's own precision, for the list's cursor. */
  readonly position: string;
};

/** Where a page of a list ended. Without an id the whole instant is left behind. */
export type ImpactPosition = { readonly createdAt: string; readonly id: string | null };
