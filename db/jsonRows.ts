import { columnName, sql } from "./sql.ts";

export type ColumnType =
  | "uuid"
  | "text"
  | "int4"
  | "int8"
  | "_int8"
  | "float8"
  | "bool"
  | "timestamptz"
  | "jsonb";

/** The name of a property that some object of a union has. */
type NameIn<Row> = Row extends unknown ? keyof Row & string : never;

/**
 * A query of objects as rows, with a column in snake case for each of the named properties, which is null where an object
 * lacks it, and their `place` in the list. A statement has the same text for any number of them, and the planner expects the
 * same number of any. PostgreSQL reads each object once, however many columns there are.
 */
export const jsonRows = <Row extends Readonly<Record<string, unknown>>, Column extends NameIn<Row>>(
  types: Readonly<Record<Column, ColumnType>>,
  objects: readonly Row[],
) => {
  const columns = Object.entries<ColumnType>(types).map(
    ([property, type]) => [property, columnName(property), type] as const,
  );
  const rows = objects.map((object) =>
    Object.fromEntries(columns.map(([property, name]) => [name, object[property]])),
  );
  const definitions = columns.map(
    ([, name, type]) => sql.fragment`${sql.identifier([name])} ${sql.identifier([type])}`,
  );
  const names = [...columns.map(([, name]) => name), "place"].map((name) => sql.identifier([name]));
  return sql.fragment`
    SELECT *
    FROM ROWS FROM (json_to_recordset(${JSON.stringify(rows)}::json) AS (${sql.join(definitions, sql.fragment`, `)}))
      WITH ORDINALITY AS given (${sql.join(names, sql.fragment`, `)})
  `;
};
