import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Ein } from "./charities.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import type { CatalogueCharity } from "./charities.sql.ts";
import { catalogueCharityColumns, catalogueCharityRow } from "./charities.sql.ts";

/** What a phrase must resemble: a part of a charity's names, or all of them. */
type Resemblance = "part" | "whole";

/** How a name must match; `phrase` is the whole search in normalized words. */
export type NameMatch =
  /** Each word begins a word of the names. */
  | { readonly by: "words"; readonly phrase: string; readonly words: readonly string[] }
  | {
      readonly by: "similarity";
      readonly phrase: string;
      readonly resemblance: Resemblance;
      /** From 0 to 1. */
      readonly minimum: number;
    };

type CatalogueQuery = { readonly name: NameMatch | null; readonly ein: Ein | null };

/** The planner does not see the words, so that it always reads the index, even for words that many names have. */
const beginsWords = (words: readonly string[]): FragmentSqlToken => sql.fragment`
  array_to_tsvector(string_to_array(btrim(charity.search_text), ' '))
    @@ (SELECT ${words.map((word) => `${word}:*`).join(" & ")}::tsquery)
`;

const resembles = (phrase: string, resemblance: Resemblance): FragmentSqlToken =>
  resemblance === "part"
    ? sql.fragment`${phrase} <% charity.search_text`
    : sql.fragment`${phrase} % charity.search_text`;

const similarityOf = (phrase: string, resemblance: Resemblance): FragmentSqlToken =>
  resemblance === "part"
    ? sql.fragment`word_similarity(${phrase}, charity.search_text)`
    : sql.fragment`similarity(${phrase}, charity.search_text)`;

const matching = ({ name, ein }: CatalogueQuery): FragmentSqlToken => {
  const conditions = [sql.fragment`charity.eligible`];
  if (ein !== null) {
    conditions.push(sql.fragment`charity.ein = ${ein}`);
  }
  if (name?.by === "words") {
    conditions.push(beginsWords(name.words));
  } else if (name !== null) {
    const { phrase, resemblance, minimum } = name;
    conditions.push(
      resembles(phrase, resemblance),
      sql.fragment`${similarityOf(phrase, resemblance)} >= ${minimum}`,
    );
  }
  return sql.fragment`${sql.join(conditions, sql.fragment` AND `)}`;
};

/** The smaller, the closer. */
const distance = (name: NameMatch): FragmentSqlToken =>
  name.by === "similarity"
    ? sql.fragment`-${similarityOf(name.phrase, name.resemblance)}`
    : sql.fragment`
        CASE
          WHEN charity.search_text LIKE ${`%| ${name.phrase} |%`} THEN 0
          WHEN charity.search_text LIKE ${`%| ${name.phrase} %`} THEN 1
          WHEN charity.search_text LIKE ALL (${sql.array(
            name.words.map((word) => `% ${word} %`),
            "text",
          )}) THEN 2
          WHEN charity.search_text LIKE ${`%| ${name.phrase}%`} THEN 3
          ELSE 4
        END
      `;

const ordering = ({ name }: CatalogueQuery): FragmentSqlToken =>
  name === null
    ? sql.fragment`charity.known_as = '', charity.ein`
    : sql.fragment`
        ${distance(name)}, charity.known_as = '', length(charity.name), charity.income_code DESC, charity.ein
      `;

const countRow = z.strictObject({ count: safeInteger });

export const countCharities = (db: CommonQueryMethods, query: CatalogueQuery): Promise<number> =>
  db.oneFirst(sql.type(countRow)`SELECT count(*) AS count FROM charity WHERE ${matching(query)}`);

/** Lists matches, the closest names first; of equally close ones the well-known, the short and the large first. */
export const listCharities = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  { offset, limit }: { readonly offset: number; readonly limit: number },
): Promise<readonly CatalogueCharity[]> =>
  db.any(sql.type(catalogueCharityRow)`
    SELECT ${catalogueCharityColumns}
    FROM charity
    WHERE ${matching(query)}
    ORDER BY ${ordering(query)}
    LIMIT ${limit}
    OFFSET ${offset}
  `);

/** At the default of 0.6, a word whose letters are exchanged resembles nothing. */
const MINIMUM_SIMILARITY_OF_PART = "0.5";

const highestRow = z.strictObject({ highest: z.number().nullable() });

/**
 * Returns the similarity of the most similar name; null if the phrase resembles none. The rest of the transaction can find
 * names by their similarity.
 */
export const findHighestSimilarity = async (
  transaction: DatabaseTransactionConnection,
  phrase: string,
  resemblance: Resemblance,
  ein: Ein | null,
): Promise<number | null> => {
  // Until the first vacuum after an import, reading all names seems cheaper than the index, but comparing them is not.
  await transaction.query(sql.typeAlias("void")`
    SELECT
    FROM
      set_config('pg_trgm.word_similarity_threshold', ${MINIMUM_SIMILARITY_OF_PART}, true) AS threshold,
      set_config('enable_seqscan', 'off', true) AS plan
  `);
  return transaction.oneFirst(sql.type(highestRow)`
    SELECT max(${similarityOf(phrase, resemblance)})::float8 AS highest
    FROM charity
    WHERE charity.eligible
      AND ${ein === null ? sql.fragment`true` : sql.fragment`charity.ein = ${ein}`}
      AND ${resembles(phrase, resemblance)}
  `);
};
