import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { MasterFileRecord } from "./businessMasterFile.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";

/** A file, identified by its content and the date of the extract. */
export type ImportedFile = { readonly sha256: string; readonly extractedOn: string };

const progressRow = z.strictObject({
  linesDone: safeInteger,
  isFinished: z.boolean(),
});

/** Returns the progress of a file's import, which is recorded as begun if it is new. */
export const beginCharityImport = (
  db: CommonQueryMethods,
  { sha256, extractedOn }: ImportedFile,
): Promise<Readonly<z.output<typeof progressRow>>> =>
  db.one(sql.type(progressRow)`
    INSERT INTO charity_import AS known (sha256, extracted_on, lines_done)
    VALUES (${sha256}, ${extractedOn}, 0)
    ON CONFLICT (sha256, extracted_on) DO UPDATE SET lines_done = known.lines_done
    RETURNING lines_done AS "linesDone", finished_at IS NOT NULL AS "isFinished"
  `);

export const recordCharityImport = async (
  db: CommonQueryMethods,
  { sha256, extractedOn }: ImportedFile,
  linesDone: number,
  finishedAt: Date | null,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE charity_import
    SET lines_done = ${linesDone}, finished_at = ${timestamp(finishedAt)}
    WHERE sha256 = ${sha256} AND extracted_on = ${extractedOn}
  `);
};

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

/** Inserts or updates the records of an extract; a row from a newer extract stays unchanged. */
export const upsertCharities = (
  transaction: DatabaseTransactionConnection,
  records: readonly MasterFileRecord[],
  extractedOn: string,
): Promise<ImportCounts> =>
  transaction.one(sql.type(countsRow)`
    WITH given AS MATERIALIZED (
      SELECT DISTINCT ON (ein) *, ${extractedOn}::date AS extracted_on
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
        (
          known.name, known.sort_name, known.city, known.state, known.ntee, known.affiliation, known.subsection,
          known.deductibility, known.income_code
        ) IS DISTINCT FROM (
          given.name, given."sortName", given.city, given.state, given.ntee, given.affiliation, given.subsection,
          given.deductibility, given."incomeCode"
        ) AS is_different
      FROM given
      LEFT JOIN charity AS known ON known.ein = given.ein
    ),
    written AS (
      INSERT INTO charity AS known (
        ein, name, sort_name, city, state, ntee, affiliation, subsection, deductibility, income_code, extracted_on
      )
      SELECT
        ein, name, "sortName", city, state, ntee, affiliation, subsection, deductibility, "incomeCode", extracted_on
      FROM compared
      WHERE NOT is_older
      ORDER BY ein
      ON CONFLICT (ein) DO UPDATE
      SET
        name = excluded.name,
        sort_name = excluded.sort_name,
        city = excluded.city,
        state = excluded.state,
        ntee = excluded.ntee,
        affiliation = excluded.affiliation,
        subsection = excluded.subsection,
        deductibility = excluded.deductibility,
        income_code = excluded.income_code,
        extracted_on = excluded.extracted_on
      WHERE (
        known.name, known.sort_name, known.city, known.state, known.ntee, known.affiliation, known.subsection,
        known.deductibility, known.income_code, known.extracted_on
      ) IS DISTINCT FROM (
        excluded.name, excluded.sort_name, excluded.city, excluded.state, excluded.ntee, excluded.affiliation,
        excluded.subsection, excluded.deductibility, excluded.income_code, excluded.extracted_on
      )
        -- A concurrent import may have written a newer extract.
        AND (known.extracted_on IS NULL OR known.extracted_on <= excluded.extracted_on)
    )
    SELECT
      count(*) FILTER (WHERE is_new)::integer AS added,
      count(*) FILTER (WHERE NOT is_new AND NOT is_older AND is_different)::integer AS changed,
      count(*) FILTER (WHERE NOT is_new AND NOT is_older AND NOT is_different)::integer AS same,
      count(*) FILTER (WHERE is_older)::integer AS older
    FROM compared
  `);
