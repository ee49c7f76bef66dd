import type { FragmentSqlToken } from "slonik";
import type { ImpactFilter } from "../../domain/stores/customers.ts";
import { normalizeCustomerId } from "../../domain/stores/customers.ts";
import { inRange, sql } from "../sql.ts";

/** Escapes the characters that have a meaning in LIKE patterns. */
export const escapeLike = (text: string): string => text.replaceAll(/[\\%_]/gu, String.raw`\$&`);

const column = (table: string, name: string): FragmentSqlToken =>
  sql.fragment`${sql.identifier([table, name])}`;

/** Whether a filter finds a few records by an index, however large their store is. */
export const isLookup = ({ emails, id, orderId }: ImpactFilter): boolean =>
  emails !== undefined || id !== undefined || orderId !== undefined;

/** Returns a filter's conditions on a table with customer and order columns, each in the form that its index serves. */
export const customerConditions = (
  table: "registration" | "donation",
  filter: ImpactFilter,
): readonly FragmentSqlToken[] => {
  const name = column(table, "customer_name");
  const email = column(table, "customer_email");
  const id = column(table, "customer_id");
  const conditions: FragmentSqlToken[] = (filter.emails ?? []).map(
    (given) => sql.fragment`lower(${email}) = lower(${given})`,
  );
  if (filter.name !== undefined) {
    conditions.push(sql.fragment`${name} ILIKE ${`%${escapeLike(filter.name)}%`}`);
  }
  if (filter.exactName !== undefined) {
    conditions.push(sql.fragment`${name} ILIKE ${escapeLike(filter.exactName)}`);
  }
  if (filter.id !== undefined) {
    conditions.push(sql.fragment`${id} = ${filter.id}`);
  }
  if (filter.any !== undefined) {
    conditions.push(sql.fragment`(
      ${name} ILIKE ${`%${escapeLike(filter.any)}%`}
      OR lower(${email}) = lower(${filter.any})
      OR ${id} = ${normalizeCustomerId(filter.any)}
    )`);
  }
  if (filter.orderId !== undefined) {
    conditions.push(
      sql.fragment`ltrim(${column(table, "order_id")}, '#') = ltrim(${filter.orderId}, '#')`,
    );
  }
  return [...conditions, ...inRange(column(table, "created_at"), filter)];
};
