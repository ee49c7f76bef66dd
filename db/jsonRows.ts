import type { FragmentSqlToken } from "slonik";
import { columnName, sql } from "./sql.ts";

type ColumnType = "uuid" | "text" | "int8" | "timestamptz";

/**
 * A query of objects as rows, with a column in snake case for each of the named properties, which is null where an object
 * lacks it, and their `place` in the list. A statement has the same text for any number of them, and the planner expects the
 * same number of any.
 */
export const jsonRows = <Types extends Readonly<Record<string, ColumnType>>>(
  types: Types,
  objects: readonly Readonly<Partial<Record<keyof Types & string, unknown>>>[],
): FragmentSqlToken => {
  const columns = Object.entries(types);
  const values = objects.map((object: Readonly<Record<string, unknown>>) =>
    columns.map(([property]) => object[property]),
  );
  const selected = columns.map(
    ([property, type], index) =>
      sql.fragment`(value ->> ${sql.literalValue(String(index))}::integer)::${sql.identifier([type])} AS ${sql.identifier([columnName(property)])}`,
  );
  return sql.fragment`
    SELECT ${sql.join(selected, sql.fragment`, `)}, place
    FROM json_array_elements(${JSON.stringify(values)}::json) WITH ORDINALITY AS given (value, place)
  `;
};
