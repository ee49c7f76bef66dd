import { registrationRow } from "./registrations.rules.ts";
import type { Registration } from "./registrations.rules.ts";
import { columnName, columnsOf, sql } from "../../db/sql.ts";

const FIELDS = Object.keys(registrationRow.shape);

export const registrationColumns = columnsOf("registration", registrationRow);

const valueOf = (table: string, field: string) =>
  sql.fragment`${sql.identifier([table, columnName(field)])}`;

/** Selects a registration as a JSON object, as `registrationRow` reads it. */
export const registrationObject = (table: string) =>
  sql.fragment`json_build_object(${sql.join(
    FIELDS.flatMap((field) => [sql.literalValue(field), valueOf(table, field)]),
    sql.fragment`, `,
  )})`;

/**
 * Selects a registration as the text of a JSON array, as `readRegistrationValues` reads it. For a long list, that takes
 * PostgreSQL half as long as objects.
 */
export const registrationValues = (table: string) =>
  sql.fragment`json_build_array(${sql.join(
    FIELDS.map((field) => valueOf(table, field)),
    sql.fragment`, `,
  )})::text`;

/** Reads a registration from its values. Lists of a million read each by this. */
export const readRegistrationValues = (text: string): Registration => {
  const values: readonly unknown[] = JSON.parse(text);
  const registration: Record<string, unknown> = {};
  let index = 0;
  for (const field of FIELDS) {
    const value = values[index];
    registration[field] = field === "createdAt" ? new Date(String(value)) : value;
    index += 1;
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the values are those of all columns.
  return registration as Registration;
};
