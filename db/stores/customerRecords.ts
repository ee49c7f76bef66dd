import type { FragmentSqlToken } from "slonik";
import type { CustomerIdentity, KnownCustomer } from "../../domain/stores/customerIdentity.ts";
import { anyAccount } from "../ownedRecords.ts";
import type { RecordTable } from "../ownedRecords.ts";
import { sql } from "../sql.ts";

/* Which registrations and donations of a store belong to a customer. */

const anyOf = (values: readonly string[]): FragmentSqlToken =>
  sql.fragment`ANY(${sql.array([...values], "text")})`;

/** Each alternative is in the form that an index serves. */
const isOfCustomer = (table: RecordTable, customer: CustomerIdentity): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`(
    ${column("customer_id")} = ${anyOf(customer.ids)}
    OR lower(${column("customer_email")}) = ANY(ARRAY(
      SELECT lower(email) FROM unnest(${sql.array([...customer.emails], "text")}) AS given (email)
    ))
    OR ltrim(${column("order_id")}, '#') = ${anyOf(customer.orderIds)}
  )`;
};

/**
 * Selects records that have a customer's name and neither an id nor an email address, and that the identity does not select
 * by their order.
 */
const onlyNames = (table: RecordTable, { identity, names }: KnownCustomer): FragmentSqlToken => {
  const column = (name: string) => sql.identifier([table, name]);
  return sql.fragment`(
    lower(${column("customer_name")}) = ${anyOf(names)}
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
    table === "registration" ? sql.fragment`AND kind IN ('tree', 'bottle')` : sql.fragment``;
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
