import type { CommonQueryMethods, ListSqlToken } from "slonik";
import type { MasterFileRecord } from "./businessMasterFile.rules.ts";
import { sql } from "../../db/sql.ts";

/** The columns of `charity` that an extract has, except the EIN. */
const COLUMNS = [
  "name",
  "sort_name",
  "city",
  "state",
  "ntee",
  "affiliation",
  "subsection",
  "deductibility",
  "income_code",
] as const;

const columnsOf = (...table: readonly string[]): ListSqlToken =>
  sql.join(
    COLUMNS.map((column) => sql.identifier([...table, column])),
    sql.fragment`, `,
  );

/**
 * Inserts or updates the records of an extract; a row from a newer extract stays unchanged.
 * @returns how many rows were written
 */
export const upsertCharities = async (
  db: CommonQueryMethods,
  records: readonly MasterFileRecord[],
  extractedOn: string,
): Promise<number> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO charity AS known (ein, ${columnsOf()}, extracted_on)
    SELECT DISTINCT ON (ein)
      ein, name, "sortName", city, state, ntee, affiliation, subsection, deductibility, "incomeCode", ${extractedOn}::date
    FROM json_to_recordset(${JSON.stringify(records)}::json) AS given (
      ein text, name text, "sortName" text, city text, state text, ntee text, affiliation text, subsection text,
      deductibility text, "incomeCode" smallint
    )
    ORDER BY ein
    ON CONFLICT (ein) DO UPDATE
    SET (${columnsOf()}, extracted_on, listed) = (${columnsOf("excluded")}, excluded.extracted_on, true)
    WHERE (known.extracted_on IS NULL OR known.extracted_on <= excluded.extracted_on)
      AND (${columnsOf("known")}, known.extracted_on, known.listed)
        IS DISTINCT FROM (${columnsOf("excluded")}, excluded.extracted_on, true)
  `);
  return rowCount;
};

/** Marks the charities that no extract of the date or a later one lists. Returns how many were marked. */
export const markUnlisted = async (
  db: CommonQueryMethods,
  extractedOn: string,
): Promise<number> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE charity
    SET listed = false
    WHERE listed AND (extracted_on IS NULL OR extracted_on < ${extractedOn}::date)
  `);
  return rowCount;
};
