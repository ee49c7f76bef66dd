import type { FragmentSqlToken, IdentifierSqlToken } from "slonik";
import { anyAccount, isOwn, ownedBy } from "../records/ownedRecords.sql.ts";
import type { RecordOwner, RecordTable } from "../records/ownedRecords.sql.ts";
import { allOf, sql, inRange, literals } from "../../db/sql.ts";
import { normalizeCustomerId } from "./customers.rules.ts";
import type { ImpactFilter, KnownCustomer, RefundFilter } from "./customers.rules.ts";
import { KINDS } from "../records/owner.rules.ts";

const column = (table: RecordTable, name: string): IdentifierSqlToken =>
  sql.identifier([table, name]);

const escapeLike = (text: string): string => text.replaceAll(/[\\%_]/gu, String.raw`\$&`);

/* Conditions that a record has a customer or an order, each in the form that its index serves. */

export const hasNameWith = (table: RecordTable, part: string) =>
  sql.fragment`folded_text(${column(table, "customer_name")}) LIKE folded_text(${`%${escapeLike(part.trim())}%`})`;

/** A text, or SQL for it. */
type Text = string | FragmentSqlToken | IdentifierSqlToken;

/** The index has folded names, and the planner's statistics have their digests. */
const hasName = (table: RecordTable, name: Text) => sql.fragment`(
  folded_text(${column(table, "customer_name")}) = folded_text(${name})
  AND text_digest(folded_text(${column(table, "customer_name")})) = text_digest(folded_text(${name}))
)`;

export const hasEmail = (table: RecordTable, email: Text) =>
  sql.fragment`text_digest(folded_text(${column(table, "customer_email")})) = text_digest(folded_text(${email}))`;

export const hasCustomerId = (table: RecordTable, id: Text) =>
  sql.fragment`text_digest(trimmed_text(${column(table, "customer_id")})) = text_digest(trimmed_text(${id}))`;

export const hasOrder = (table: RecordTable, orderId: Text) =>
  sql.fragment`order_digest(${column(table, "order_id")}) = order_digest(${orderId})`;

const hasAny = (table: RecordTable, text: string) => sql.fragment`(
  ${hasNameWith(table, text)} OR ${hasEmail(table, text)} OR ${hasCustomerId(table, normalizeCustomerId(text))}
)`;

export const REFUND_CONDITIONS = {
  wholeName: hasName,
  email: hasEmail,
  id: hasCustomerId,
  orderId: hasOrder,
} as const satisfies Record<keyof RefundFilter, object>;

/** The conditions of lists and totals, and whether an index finds their few records, however large the store is. */
const CONDITIONS = [
  { name: "name", has: hasNameWith, isLookup: false },
  { name: "email", has: hasEmail, isLookup: true },
  { name: "emailAlias", has: hasEmail, isLookup: true },
  { name: "id", has: hasCustomerId, isLookup: true },
  { name: "any", has: hasAny, isLookup: false },
  { name: "orderId", has: hasOrder, isLookup: true },
] as const;

/** The condition that a record is its owner's and is selected by a filter. */
export const isFiltered = (table: RecordTable, owner: RecordOwner, filter: ImpactFilter) => {
  const given = CONDITIONS.flatMap(({ name, has, isLookup }) => {
    const text = filter[name];
    return text === undefined ? [] : [{ isLookup, condition: has(table, text) }];
  });
  const isOfOwner = given.some(({ isLookup }) => isLookup) ? isOwn : ownedBy;
  return allOf(
    isOfOwner(table, owner),
    ...given.map(({ condition }) => condition),
    ...inRange(column(table, "created_at"), filter),
  );
};

/** The digests of texts. `digest` makes one of each `given`. */
const anyOf = (values: readonly string[], digest: FragmentSqlToken) =>
  sql.fragment`ANY(ARRAY(SELECT ${digest} FROM unnest(${sql.array([...values], "text")}) AS given))`;

const FOLDED = sql.fragment`text_digest(folded_text(given))`;

const onlyName = (table: RecordTable, names: readonly string[]) => sql.fragment`(
  text_digest(folded_text(${column(table, "customer_name")})) = ${anyOf(names, FOLDED)}
  AND ${column(table, "customer_name")} IS NOT NULL
  AND ${column(table, "customer_id")} IS NULL
  AND ${column(table, "customer_email")} IS NULL
)`;

/**
 * The condition that a record belongs to a store, in either mode and of any kind. It names them all, because the indexes
 * of records have the mode and the kind between the account and what they are searched by.
 */
export const ofStore = (table: RecordTable, account: FragmentSqlToken) => {
  const kinds =
    table === "registration" ? sql.fragment`AND kind IN (${literals(KINDS)})` : sql.fragment``;
  return sql.fragment`${column(table, "account_id")} = ${account} AND mode IN ('live', 'test') ${kinds}`;
};

/**
 * Selects a store's records that have one of a customer's names and neither an id nor an email address. The account's
 * statistics do not decide by which index the records are found.
 */
export const hasOnlyName = (
  table: RecordTable,
  accountId: string,
  { names }: KnownCustomer,
) => sql.fragment`
  ${ofStore(table, anyAccount(accountId))}
  AND ${onlyName(table, names)}
`;

/** Selects all of a customer's records in a store. Each alternative is in the form that an index serves. */
export const isOfCustomer = (
  table: RecordTable,
  accountId: string,
  { ids, emails, orderIds, names }: KnownCustomer,
) => sql.fragment`
  ${ofStore(table, anyAccount(accountId))}
  AND (
    text_digest(trimmed_text(${column(table, "customer_id")})) = ${anyOf(ids, sql.fragment`text_digest(trimmed_text(given))`)}
    OR text_digest(folded_text(${column(table, "customer_email")})) = ${anyOf(emails, FOLDED)}
    OR order_digest(${column(table, "order_id")}) = ${anyOf(orderIds, sql.fragment`order_digest(given)`)}
    OR ${onlyName(table, names)}
  )
`;
