import type { FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Registration } from "./registrations.rules.ts";
import { sql } from "../../db/sql.ts";

/** How a column's values are read: from a row or from JSON, and from the text of COPY. */
type Reading<Value> = { readonly row: z.ZodType<Value>; readonly read: (text: string) => Value };

const text: Reading<string> = { row: z.string(), read: (value) => value };
const optionalText: Reading<string | null> = { row: z.string().nullable(), read: (value) => value };
const integer: Reading<number> = { row: z.coerce.number().pipe(z.int()), read: Number };
const float: Reading<number> = { row: z.number(), read: Number };
const time: Reading<Date> = { row: z.coerce.date(), read: (value) => new Date(value) };
const json: Reading<Registration["metadata"]> = {
  row: z.record(z.string(), z.unknown()),
  read: (value) => JSON.parse(value),
};

/** The columns of a registration. */
const COLUMNS = {
  id: { name: "id", ...text },
  importedId: { name: "imported_id", ...optionalText },
  count: { name: "count", ...integer },
  refundedCount: { name: "refunded_count", ...integer },
  createdAt: { name: "created_at", ...time },
  fractionalCount: { name: "fractional_count", ...float },
  idempotencyKey: { name: "idempotency_key", ...optionalText },
  attribution: { name: "attribution", ...text },
  metadata: { name: "metadata", ...json },
} as const satisfies {
  readonly [Name in keyof Registration]: Reading<Registration[Name]> & { readonly name: string };
};

type Field = keyof typeof COLUMNS;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.entries has no better type.
const ENTRIES = Object.entries(COLUMNS) as [Field, (typeof COLUMNS)[Field]][];

export const registrationRow = z.strictObject(
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Object.fromEntries has no better type.
  Object.fromEntries(ENTRIES.map(([field, { row }]) => [field, row])) as {
    readonly [Name in Field]: z.ZodType<Registration[Name]>;
  },
);

const selected = (table: string, column: string): FragmentSqlToken =>
  sql.fragment`${sql.identifier([table, column])}`;

/** Selects a registration, as `registrationRow` and `readCopied` read it. */
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

const READERS = ENTRIES.map(([field, { read }]) => ({ field, read }));

/** The texts of a row that COPY has written, without the separators; null is NULL. */
type CopiedValues = readonly (string | null)[];

const CREATED_AT = ENTRIES.findIndex(([field]) => field === "createdAt");

/** How many columns a registration has. */
export const REGISTRATION_WIDTH = ENTRIES.length;

/** Returns the time of a registration that was copied, in microseconds. */
export const copiedTime = (values: CopiedValues): string => z.string().parse(values[CREATED_AT]);

/** Returns a registration that was copied. Lists of a million read each by this. */
export const readCopied = (values: CopiedValues): Registration => {
  const registration: Partial<Record<Field, unknown>> = {};
  let index = 0;
  for (const { field, read } of READERS) {
    const value = values[index] ?? null;
    registration[field] = value === null ? null : read(value);
    index += 1;
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- all fields of COLUMNS are set; columns are NOT NULL in the database.
  return registration as Registration;
};
