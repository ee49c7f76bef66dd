import type { FragmentSqlToken, IdentifierSqlToken } from "slonik";
import type { ImpactFilter } from "./customers.rules.ts";
import { normalizeCustomerId } from "./customers.rules.ts";
import type { RecordTable } from "../records/ownedRecords.sql.ts";
import { inRange, sql } from "../../db/sql.ts";

/** Escapes the characters that have a meaning in LIKE patterns. */
const escapeLike = (text: string): string => text.replaceAll(/[\\%_]/gu, String.raw`\$&`);

const column = (table: RecordTable, name: string): IdentifierSqlToken =>
  sql.identifier([table, name]);

/*
 * Conditions that a record has a customer or an order, each in the form that its index serves.
 */

/** Part of the name. */
export const hasNameWith = (table: RecordTable, part: string): FragmentSqlToken =>
  sql.fragment`folded_text(${column(table, "customer_name")}) LIKE folded_text(${`%${escapeLike(part.trim())}%`})`;

const hasName = (table: RecordTable, name: string): FragmentSqlToken =>
  sql.fragment`folded_text(${column(table, "customer_name")}) LIKE folded_text(${escapeLike(name)})`;

export const hasEmail = (table: RecordTable, email: string): FragmentSqlToken =>
  sql.fragment`text_digest(folded_text(${column(table, "customer_email")})) = text_digest(folded_text(${email}))`;

export const hasCustomerId = (table: RecordTable, id: string): FragmentSqlToken =>
  sql.fragment`text_digest(btrim(${column(table, "customer_id")})) = text_digest(btrim(${id}))`;

export const hasOrder = (table: RecordTable, orderId: string): FragmentSqlToken =>
  sql.fragment`order_digest(${column(table, "order_id")}) = order_digest(${orderId})`;

/** Whether a filter finds a few records by an index, however large their store is. */
export const isLookup = ({ emails, id, orderId }: ImpactFilter): boolean =>
  emails !== undefined || id !== undefined || orderId !== undefined;

/** Returns a filter's conditions on a table with customer and order columns, each in the form that its index serves. */
export const customerConditions = (
  table: RecordTable,
  filter: ImpactFilter,
): readonly FragmentSqlToken[] => {
  const conditions: FragmentSqlToken[] = (filter.emails ?? []).map((given) =>
    hasEmail(table, given),
  );
  if (filter.name !== undefined) {
    conditions.push(hasNameWith(table, filter.name));
  }
  if (filter.exactName !== undefined) {
    conditions.push(hasName(table, filter.exactName));
  }
  if (filter.id !== undefined) {
    conditions.push(hasCustomerId(table, filter.id));
  }
  if (filter.any !== undefined) {
    conditions.push(sql.fragment`(
      ${hasNameWith(table, filter.any)}
      OR ${hasEmail(table, filter.any)}
      OR ${hasCustomerId(table, normalizeCustomerId(filter.any))}
    )`);
  }
  if (filter.orderId !== undefined) {
    conditions.push(hasOrder(table, filter.orderId));
  }
  return [...conditions, ...inRange(column(table, "created_at"), filter)];
};
