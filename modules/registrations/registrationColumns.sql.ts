import type { FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Registration } from "./registrations.rules.ts";
import { sql } from "../../db/sql.ts";

/**
 * The columns of a registration, and how their values are read, from a row or from JSON. A value's text is JSON as it is, or
 * with quotes, or it has to be escaped.
 */
const COLUMNS = {
  id: { name: "id", text: "quoted", row: z.string() },
  importedId: { name: "imported_id", text: "escaped", row: z.string().nullable() },
  count: { name: "count", text: "json", row: z.coerce.number().pipe(z.int()) },
  refundedCount: { name: "refunded_count", text: "json", row: z.coerce.number().pipe(z.int()) },
  createdAt: { name: "created_at", text: "quoted", row: z.coerce.date() },
  fractionalCount: { name: "fractional_count", text: "json", row: z.number() },
  idempotencyKey: { name: "idempotency_key", text: "escaped", row: z.string().nullable() },
  attribution: { name: "attribution", text: "escaped", row: z.string() },
  metadata: { name: "metadata", text: "json", row: z.record(z.string(), z.unknown()) },
} as const satisfies {
  readonly [Name in keyof Registration]: {
    readonly name: string;
    readonly text: "json" | "quoted" | "escaped";
    readonly row: z.ZodType<Registration[Name]>;
  };
};

type Field = keyof typeof COLUMNS;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.entries has no better type.
const ENTRIES = Object.entries(COLUMNS) as [Field, (typeof COLUMNS)[Field]][];

export const registrationRow = z.strictObject(
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.fromEntries has no better type.
  Object.fromEntries<z.ZodType>(ENTRIES.map(([field, { row }]) => [field, row])) as {
    readonly [Name in Field]: z.ZodType<Registration[Name]>;
  },
);

const selected = (table: string, column: string): FragmentSqlToken =>
  sql.fragment`${sql.identifier([table, column])}`;

/** Selects a registration, as `registrationRow` reads it. */
export const registrationColumns = (table = "registration"): FragmentSqlToken =>
  sql.fragment`${sql.join(
    ENTRIES.map(
      ([field, { name }]) => sql.fragment`${selected(table, name)} AS ${sql.identifier([field])}`,
    ),
    sql.fragment`, `,
  )}`;

/** Selects a registration as a JSON object, as `registrationRow` reads it. */
export const registrationObject = (table: string): FragmentSqlToken =>
  sql.fragment`json_build_object(${sql.join(
    ENTRIES.flatMap(([field, { name }]) => [sql.literalValue(field), selected(table, name)]),
    sql.fragment`, `,
  )})`;

const WRITTEN = {
  json: (column: FragmentSqlToken) => column,
  quoted: (column: FragmentSqlToken) => sql.fragment`'"', ${column}, '"'`,
  escaped: (column: FragmentSqlToken) => sql.fragment`coalesce(to_json(${column})::text, 'null')`,
};

/**
 * Selects a registration as the text of a JSON array, as `readRegistrationValues` reads it. For a long list, that takes
 * PostgreSQL half as long as objects.
 */
export const registrationValues = (table: string): FragmentSqlToken =>
  sql.fragment`concat('[', ${sql.join(
    ENTRIES.map(([, { name, text }]) => WRITTEN[text](selected(table, name))),
    sql.fragment`, ',', `,
  )}, ']')`;

/** Reads a registration from its values. Lists of a million read each by this. */
export const readRegistrationValues = (text: string): Registration => {
  const values: readonly unknown[] = JSON.parse(text);
  const registration: Partial<Record<Field, unknown>> = {};
  let index = 0;
  for (const [field] of ENTRIES) {
    const value = values[index];
    registration[field] = field === "createdAt" ? new Date(String(value)) : value;
    index += 1;
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the values are those of all columns.
  return registration as Registration;
};
