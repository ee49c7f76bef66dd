import { createSqlTag } from "slonik";
import type { FragmentSqlToken, IdentifierSqlToken, ListSqlToken, ValueExpression } from "slonik";
import { z } from "zod";

/** The row schema of a prepared statement that returns no rows. */
export const nothing = z.strictObject({});

export const sql = createSqlTag({ typeAliases: { void: nothing } });

export const idRow = z.strictObject({ id: z.uuid() });

/** An `int8` column whose values are safe integers, by a constraint. */
export const safeInteger = z.bigint().transform(Number).pipe(z.int());

export const countRow = z.strictObject({ count: safeInteger });

/**
 * Returns a time as a parameter. It is sent as text, which is exact: the library's own `sql.timestamp` sends seconds as a
 * floating-point number.
 * @param time a text may have microseconds, which a Date does not hold
 */
export const timestamp = (time: Date | string | null) =>
  sql.fragment`${time instanceof Date ? time.toISOString() : time}::timestamptz`;

/** A time as ISO 8601 text in UTC, with the microseconds that a Date does not hold. */
export const inMicroseconds = (time: FragmentSqlToken | IdentifierSqlToken) =>
  sql.fragment`to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

/** Returns the conditions that a time is in a half-open range. Absent and null bounds do not limit it. */
export const inRange = (
  time: FragmentSqlToken | IdentifierSqlToken,
  {
    from,
    until,
  }: { readonly from?: Date | null | undefined; readonly until?: Date | null | undefined },
) => [
  ...(from ? [sql.fragment`${time} >= ${timestamp(from)}`] : []),
  ...(until ? [sql.fragment`${time} < ${timestamp(until)}`] : []),
];

export const values = (names: readonly string[]) =>
  sql.fragment`unnest(${sql.array([...names], "text")})`;

/** Names for `IN`. They are literals, because the planner compares them with the conditions of indexes. */
export const literals = (names: readonly string[]) =>
  sql.join(
    names.map((name) => sql.literalValue(name)),
    sql.fragment`, `,
  );

/** The condition that all conditions hold that are given. */
export const allOf = (...conditions: readonly (FragmentSqlToken | false | "" | undefined)[]) =>
  sql.join(
    [sql.fragment`TRUE`, ...conditions.flatMap((condition) => condition || [])],
    sql.fragment` AND `,
  );

/** Lists columns by their names, of a table if it is named. */
export const identifiers = (names: readonly string[], ...table: readonly string[]) =>
  sql.join(
    names.map((name) => sql.identifier([...table, name])),
    sql.fragment`, `,
  );

/** Returns the column of a property: `customerId` is `customer_id`. */
export const columnName = (property: string): string =>
  property.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`);

/** Selects the properties of a row: the columns of a table that are named after them, or other expressions. */
export const columnsOf = <Shape extends z.ZodRawShape>(
  table: string,
  { shape }: z.ZodObject<Shape>,
  others?: { readonly [Name in keyof Shape]?: FragmentSqlToken },
) =>
  sql.join(
    Object.keys(shape).map(
      (name) =>
        sql.fragment`${others?.[name] ?? sql.identifier([table, columnName(name)])} AS ${sql.identifier([name])}`,
    ),
    sql.fragment`, `,
  );

/** Returns the assignments of columns. Null is a value, and sets a column to NULL. */
export const assignments = (columns: Readonly<Record<string, ValueExpression>>) =>
  sql.join(
    Object.entries(columns).map(
      ([name, value]) => sql.fragment`${sql.identifier([name])} = ${value}`,
    ),
    sql.fragment`, `,
  );

/** Returns the assignments of the properties that are given, or null if none is. */
export const assignmentsOf = (
  properties: Readonly<Record<string, ValueExpression | Date | undefined>>,
): ListSqlToken | null => {
  const given = Object.entries(properties).flatMap(([name, value]) =>
    value === undefined
      ? []
      : [[columnName(name), value instanceof Date ? timestamp(value) : value] as const],
  );
  return given.length === 0 ? null : assignments(Object.fromEntries(given));
};

/**
 * A condition by which the planner chooses no index, for rows that another condition finds, such as one row by its id. If the
 * statistics have seen no row in a state, the index of such rows seems empty, and reading all of it seems cheaper than the
 * search by the id.
 */
export const afterLookup = (condition: FragmentSqlToken) => sql.fragment`(SELECT ${condition})`;
