import type { CommonQueryMethods, FragmentSqlToken, ListSqlToken } from "slonik";
import { z } from "zod";
import type { Ein } from "../../domain/charities/charities.ts";
import { sql } from "../sql.ts";
import type { CatalogueCharity } from "./charities.ts";
import { catalogueCharityColumns, catalogueCharityRow } from "./charities.ts";

/** The last value of `charity.tier`. */
const LAST_TIER = 30;

/** How a name must match; `phrase` is the whole search. */
export type NameMatch =
  /** By containing a word of each list. */
  | {
      readonly by: "words";
      readonly phrase: string;
      readonly words: readonly (readonly string[])[];
    }
  /** By containing every part. */
  | { readonly by: "parts"; readonly phrase: string; readonly parts: readonly string[] }
  /** By similarity, which tolerates typos and is slower. */
  | { readonly by: "similarity"; readonly phrase: string };

export type CatalogueQuery = { readonly name: NameMatch | null; readonly ein: Ein | null };

/** A part of one or two letters contains no trigram; the index covers it only at the start of a word. */
const partPattern = (part: string): string => (part.length < 3 ? `% ${part}%` : `%${part}%`);

const nameConditions = (name: NameMatch): readonly FragmentSqlToken[] => {
  switch (name.by) {
    case "words":
      return name.words.map(
        (alternatives) =>
          sql.fragment`charity_words(charity.search_text, charity.tier) && charity_words(${alternatives.join(" ")}, tier.number)`,
      );
    case "parts":
      return name.parts.map((part) => sql.fragment`charity.search_text LIKE ${partPattern(part)}`);
    case "similarity":
      return [sql.fragment`${name.phrase} <% charity.search_text`];
  }
};

/** A search for words reads the charities of one tier after another, so it need not read those that it does not return. */
const source = ({ name }: CatalogueQuery): FragmentSqlToken =>
  name?.by === "words"
    ? sql.fragment`
        generate_series(0, ${LAST_TIER}) WITH ORDINALITY AS tier (number, position)
        CROSS JOIN charity
      `
    : sql.fragment`charity`;

const conditions = ({ name, ein }: CatalogueQuery): ListSqlToken =>
  sql.join(
    [
      sql.fragment`charity.eligible`,
      ...(ein === null ? [] : [sql.fragment`charity.ein = ${ein}`]),
      ...(name === null ? [] : nameConditions(name)),
    ],
    sql.fragment` AND `,
  );

/** `closest` compares all matches with the search; `tiers` puts larger charities first, and similar names as `closest`. */
type SearchOrder = "closest" | "tiers";

const ordering = ({ name }: CatalogueQuery, order: SearchOrder): FragmentSqlToken => {
  if (name === null) {
    return sql.fragment`charity.known_as = '', charity.ein`;
  }
  if (order === "tiers" && name.by !== "similarity") {
    const tier = name.by === "words" ? sql.fragment`tier.position` : sql.fragment`charity.tier`;
    return sql.fragment`${tier}, length(charity.name), charity.ein`;
  }
  const closeness =
    name.by === "similarity"
      ? sql.fragment`word_similarity(${name.phrase}, charity.search_text) DESC`
      : sql.fragment`charity.search_text LIKE ${` ${name.phrase} %`} DESC`;
  return sql.fragment`
    ${closeness}, charity.known_as = '', length(charity.name), charity.income_code DESC, charity.ein
  `;
};

/** Returns the number of matches, or the limit if there are more. */
export const countCharities = async (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  limit: number,
): Promise<number> => {
  const { count } = await db.one(sql.type(z.strictObject({ count: z.bigint() }))`
    SELECT count(*) AS count
    FROM (
      SELECT
      FROM ${source(query)}
      WHERE ${conditions(query)}
      LIMIT ${limit}
    ) AS found
  `);
  return Number(count);
};

type Page = { readonly offset: number; readonly limit: number };

/** Lists matches in the order of their tiers, which reads few others. */
export const listCharities = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  { offset, limit }: Page,
): Promise<readonly CatalogueCharity[]> =>
  db.any(sql.type(catalogueCharityRow)`
    SELECT ${catalogueCharityColumns}
    FROM ${source(query)}
    WHERE ${conditions(query)}
    ORDER BY ${ordering(query, "tiers")}
    LIMIT ${limit}
    OFFSET ${offset}
  `);

const rankedRow = catalogueCharityRow.extend({ total: z.bigint().transform(Number) });

/**
 * Lists some matches, the closest first, each with their total.
 * @param maximum of further matches, any may be missing
 */
export const listClosestCharities = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  maximum: number,
  { offset, limit }: Page,
): Promise<readonly Readonly<z.output<typeof rankedRow>>[]> =>
  db.any(sql.type(rankedRow)`
    SELECT ${catalogueCharityColumns}, count(*) OVER () AS total
    FROM (
      SELECT charity.*
      FROM ${source(query)}
      WHERE ${conditions(query)}
      LIMIT ${maximum}
    ) AS charity
    ORDER BY ${ordering(query, "closest")}
    LIMIT ${limit}
    OFFSET ${offset}
  `);
