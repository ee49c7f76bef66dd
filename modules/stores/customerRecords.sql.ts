import type { FragmentSqlToken } from "slonik";
import { KINDS } from "../records/owner.rules.ts";
import type { CustomerIdentity, KnownCustomer } from "./customers.rules.ts";
import { anyAccount } from "../records/ownedRecords.sql.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { sql, literals } from "../../db/sql.ts";

/* Which registrations and donations of a store belong to a customer. */

/** The digests of texts. `digest` makes one of each `given`. */
const anyOf = (values: readonly string[], digest: FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`ANY(ARRAY(SELECT ${digest} FROM unnest(${sql.array([...values], "text")}) AS given))`;

const FOLDED = sql.fragment`text_digest(folded_text(given))`;

/** Each alternative is in the form that an index serves. */
const isOfCustomer = (table: RecordTable, customer: CustomerIdentity): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`(
    text_digest(btrim(${column("customer_id")})) = ${anyOf(customer.ids, sql.fragment`text_digest(btrim(given))`)}
    OR text_digest(folded_text(${column("customer_email")})) = ${anyOf(customer.emails, FOLDED)}
    OR order_digest(${column("order_id")}) = ${anyOf(customer.orderIds, sql.fragment`order_digest(given)`)}
  )`;
};

/**
 * Selects records that have a customer's name and neither an id nor an email address, and that the identity does not select
 * by their order.
 */
const onlyNames = (table: RecordTable, { identity, names }: KnownCustomer): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`(
    text_digest(folded_text(${column("customer_name")})) = ${anyOf(names, FOLDED)}
    AND ${column("customer_name")} IS NOT NULL
    AND ${column("customer_id")} IS NULL
    AND ${column("customer_email")} IS NULL
    AND ${isOfCustomer(table, identity)} IS NOT TRUE
  )`;
};

/** The records of an identity; with names, the other records that have only one of them. */
export type RecordSelection = CustomerIdentity | KnownCustomer;

/**
 * The condition that a record belongs to a store, in either mode and of any kind. It names them all, because the indexes
 * of records have the mode and the kind between the account and what they are searched by.
 */
export const ofStore = (table: RecordTable, account: FragmentSqlToken): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  const kinds =
    table === "registration" ? sql.fragment`AND kind IN (${literals(KINDS)})` : sql.fragment``;
  return sql.fragment`${column("account_id")} = ${account} AND mode IN ('live', 'test') ${kinds}`;
};

/** The condition that a record of a store is selected. It finds the records by an index, also in a store that the statistics do not know. */
export const isSelected = (
  table: RecordTable,
  accountId: string,
  selection: RecordSelection,
): FragmentSqlToken => sql.fragment`
  ${ofStore(table, anyAccount(accountId))}
  AND ${"names" in selection ? onlyNames(table, selection) : isOfCustomer(table, selection)}
`;
