import type { CommonQueryMethods, ListSqlToken } from "slonik";
import { z } from "zod";
import type { MasterFileRecord } from "./businessMasterFile.rules.ts";
import { sql } from "../../db/sql.ts";

const countsRow = z.strictObject({
  added: z.int(),
  changed: z.int(),
  same: z.int(),
  older: z.int(),
});

/**
 * How many records had which effect. `older` ones are from an older extract than the catalogue's row and changed nothing. What
 * a concurrent import writes meanwhile is not considered.
 */
export type ImportCounts = Readonly<z.output<typeof countsRow>>;

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

/** Inserts or updates the records of an extract; a row from a newer extract stays unchanged. */
export const upsertCharities = (
  db: CommonQueryMethods,
  records: readonly MasterFileRecord[],
  extractedOn: string,
): Promise<ImportCounts> =>
  db.one(sql.type(countsRow)`
    WITH given AS MATERIALIZED (
      SELECT DISTINCT ON (ein)
        *, "sortName" AS sort_name, "incomeCode" AS income_code, ${extractedOn}::date AS extracted_on
      FROM json_to_recordset(${JSON.stringify(records)}::json) AS given (
        ein text, name text, "sortName" text, city text, state text, ntee text, affiliation text, subsection text,
        deductibility text, "incomeCode" smallint
      )
      ORDER BY ein
    ),
    compared AS MATERIALIZED (
      SELECT
        given.*,
        known.ein IS NULL AS is_new,
        coalesce(known.extracted_on > given.extracted_on, false) AS is_older,
        (${columnsOf("known")}, known.listed) IS DISTINCT FROM (${columnsOf("given")}, true) AS is_different,
        known.extracted_on IS DISTINCT FROM given.extracted_on AS is_of_another_day
      FROM given
      LEFT JOIN charity AS known ON known.ein = given.ein
    ),
    written AS (
      INSERT INTO charity AS known (ein, ${columnsOf()}, extracted_on)
      SELECT ein, ${columnsOf()}, extracted_on
      FROM compared
      WHERE NOT is_older AND (is_different OR is_of_another_day)
      ORDER BY ein
      ON CONFLICT (ein) DO UPDATE
      SET (${columnsOf()}, extracted_on, listed) = (${columnsOf("excluded")}, excluded.extracted_on, true)
      -- A concurrent import may have written a newer extract.
      WHERE known.extracted_on IS NULL OR known.extracted_on <= excluded.extracted_on
    )
    SELECT
      count(*) FILTER (WHERE is_new)::integer AS added,
      count(*) FILTER (WHERE NOT is_new AND NOT is_older AND is_different)::integer AS changed,
      count(*) FILTER (WHERE NOT is_new AND NOT is_older AND NOT is_different)::integer AS same,
      count(*) FILTER (WHERE is_older)::integer AS older
    FROM compared
  `);

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
