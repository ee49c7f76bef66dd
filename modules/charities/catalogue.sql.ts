import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { MASTER_FILE_COLUMNS } from "./businessMasterFile.rules.ts";
import type { MasterFileRecord } from "./businessMasterFile.rules.ts";
import type { Ein } from "./charities.rules.ts";
import { columnsOf, identifiers, sql } from "../../db/sql.ts";

const charityRow = z.strictObject({
  ein: z.string(),
  name: z.string(),
  sortName: z.string(),
  knownAs: z.string(),
  website: z.string(),
  city: z.string(),
  state: z.string(),
  ntee: z.string(),
  affiliation: z.string(),
});

export type CatalogueCharity = Readonly<z.output<typeof charityRow>>;

const charityColumns = columnsOf("charity", charityRow);

/**
 * Returns the charities that have the given EINs and are eligible for donations. The planner does not see the EINs, so that
 * it keeps its plan for any number of them.
 */
export const listEligibleCharities = (db: CommonQueryMethods, eins: readonly Ein[]) =>
  db.any(sql.prepared("list_eligible_charities", charityRow)`
    SELECT ${charityColumns}
    FROM charity
    WHERE charity.ein = ANY((SELECT ${sql.array([...eins], "text")})::text[]) AND charity.eligible
  `);

export type CatalogueQuery = {
  /** In normalized words; null for all charities. */
  readonly name: { readonly phrase: string; readonly words: readonly string[] } | null;
  readonly ein: Ein | null;
  /** Whether a name must have words that begin with those of the search, or only resemble it. */
  readonly match: "words" | "similar";
};

/** How a name must match, and how distant it is: the smaller, the closer. */
const comparisonOf = ({ name, match }: CatalogueQuery) => {
  if (name === null) {
    return { condition: sql.fragment`true`, distance: sql.fragment`0` };
  }
  const { phrase, words } = name;
  if (match === "similar") {
    const isPart = sql.fragment`${phrase} <% search_text`;
    return {
      condition: sql.fragment`(${isPart} OR ${phrase} % search_text)`,
      // What resembles a part of a name is closer than all that resembles a whole name.
      distance: sql.fragment`
        CASE WHEN ${isPart} THEN -word_similarity(${phrase}, search_text) ELSE -0.4 * similarity(${phrase}, search_text) END
      `,
    };
  }
  const wholeWords = words.map((word) => `% ${word} %`);
  return {
    // The planner does not see the words, so that it always reads the index, even for words that many names have.
    condition: sql.fragment`
      array_to_tsvector(string_to_array(btrim(search_text), ' '))
        @@ (SELECT ${words.map((word) => `${word}:*`).join(" & ")}::tsquery)
    `,
    distance: sql.fragment`
      CASE
        WHEN search_text LIKE ${`%| ${phrase} |%`} THEN 0
        WHEN search_text LIKE ${`%| ${phrase} %`} THEN 1
        WHEN search_text LIKE ALL (${sql.array(wholeWords, "text")}) THEN 2
        WHEN search_text LIKE ${`%| ${phrase}%`} THEN 3
        ELSE 4
      END
    `,
  };
};

/** Similar names are the most similar one and those that are nearly as similar. */
const NEARLY_AS_SIMILAR = 0.9;

/** At the default of 0.6, a word whose letters are exchanged resembles nothing. */
const MINIMUM_SIMILARITY = "0.5";

const foundRow = z.strictObject({ totalItems: z.int(), items: z.array(charityRow) });

/**
 * Returns a page of the eligible charities that match, the closest names first, and how many match. Of equally close ones
 * the well-known, the short and the large are first. Without a name, they are in the order of an index.
 */
export const searchCatalogue = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  { offset, limit }: { readonly offset: number; readonly limit: number },
) => {
  const { condition, distance } = comparisonOf(query);
  const { name, ein, match } = query;
  const isClose =
    match === "words"
      ? sql.fragment`true`
      : sql.fragment`distance <= ${NEARLY_AS_SIMILAR} * (SELECT min(distance) FROM matched)`;
  const order =
    name === null
      ? sql.fragment`is_obscure, ein`
      : sql.fragment`distance, is_obscure, name_length, income DESC, ein`;
  const read = (connection: CommonQueryMethods) =>
    connection.one(sql.type(foundRow)`
      WITH matched AS ${name === null ? sql.fragment`NOT MATERIALIZED` : sql.fragment`MATERIALIZED`} (
        SELECT
          ein, ${distance} AS distance, known_as = '' AS is_obscure, length(name) AS name_length, income_code AS income
        FROM charity
        WHERE eligible AND ${ein === null ? sql.fragment`true` : sql.fragment`ein = ${ein}`} AND ${condition}
      )
      SELECT
        (SELECT count(*)::integer FROM matched WHERE ${isClose}) AS "totalItems",
        (
          SELECT coalesce(json_agg(listed), '[]')
          FROM (
            SELECT ${charityColumns}
            FROM (SELECT * FROM matched WHERE ${isClose} ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}) AS page
            JOIN charity USING (ein)
            ORDER BY ${order}
          ) AS listed
        ) AS items
    `);
  return match === "words"
    ? read(db)
    : db.transaction(async (transaction) => {
        // Until the first vacuum after an import, reading all names seems cheaper than the index, but comparing them is not.
        await transaction.query(sql.typeAlias("void")`
          SELECT
          FROM
            set_config('pg_trgm.word_similarity_threshold', ${MINIMUM_SIMILARITY}, true) AS threshold,
            set_config('enable_seqscan', 'off', true) AS plan
        `);
        return read(transaction);
      });
};

const recordRow = charityRow.extend({
  eligible: z.boolean(),
  listed: z.boolean(),
  subsection: z.string(),
  deductibility: z.string(),
  extractedOn: z.string().nullable(),
});

/** Returns the catalogue's whole record of an EIN, eligible for donations or not. */
export const findCharityRecord = (db: CommonQueryMethods, ein: Ein) =>
  db.maybeOne(sql.type(recordRow)`
    SELECT ${columnsOf("charity", recordRow, { extractedOn: sql.fragment`charity.extracted_on::text` })}
    FROM charity
    WHERE charity.ein = ${ein}
  `);

/** The columns of `charity` that an extract has. */
const extractColumns = (...table: readonly string[]) => identifiers(MASTER_FILE_COLUMNS, ...table);

/**
 * Inserts or updates the records of an extract; a row from a newer extract stays unchanged.
 * @returns how many rows were written
 */
export const upsertCharities = async (
  db: CommonQueryMethods,
  records: readonly MasterFileRecord[],
  extractedOn: string,
) => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO charity AS known (${extractColumns()}, extracted_on)
    SELECT DISTINCT ON (ein) ${extractColumns()}, ${extractedOn}::date
    FROM json_populate_recordset(NULL::charity, ${JSON.stringify(records)}::json)
    ORDER BY ein
    ON CONFLICT (ein) DO UPDATE
    SET (${extractColumns()}, extracted_on, listed) = (${extractColumns("excluded")}, excluded.extracted_on, true)
    WHERE (known.extracted_on IS NULL OR known.extracted_on <= excluded.extracted_on)
      AND (${extractColumns("known")}, known.extracted_on, known.listed)
        IS DISTINCT FROM (${extractColumns("excluded")}, excluded.extracted_on, true)
  `);
  return rowCount;
};

/** Marks the charities that no extract of the date or a later one lists. Returns how many were marked. */
export const markUnlisted = async (db: CommonQueryMethods, extractedOn: string) => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE charity
    SET listed = false
    WHERE listed AND (extracted_on IS NULL OR extracted_on < ${extractedOn}::date)
  `);
  return rowCount;
};
