import type { CommonQueryMethods, ListSqlToken } from "slonik";
import { MASTER_FILE_COLUMNS } from "./businessMasterFile.rules.ts";
import type { MasterFileRecord } from "./businessMasterFile.rules.ts";
import { sql } from "../../db/sql.ts";

/** The columns of `charity` that an extract has. */
const columnsOf = (...table: readonly string[]): ListSqlToken =>
  sql.join(
    MASTER_FILE_COLUMNS.map((column) => sql.identifier([...table, column])),
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
    INSERT INTO charity AS known (${columnsOf()}, extracted_on)
    SELECT DISTINCT ON (ein) ${columnsOf()}, ${extractedOn}::date
    FROM json_populate_recordset(NULL::charity, ${JSON.stringify(records)}::json)
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
