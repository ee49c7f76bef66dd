import type { CommonQueryMethods, FragmentSqlToken, ListSqlToken } from "slonik";
import { z } from "zod";
import type { Ein } from "../../domain/charities/charities.ts";
import type { SearchWords } from "../../domain/charities/charitySearch.ts";
import { sql } from "../sql.ts";

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

/** A charity of the built-in catalogue. */
export type CatalogueCharity = Readonly<z.output<typeof charityRow>>;

const columns = sql.fragment`
  charity.ein,
  charity.name,
  charity.sort_name AS "sortName",
  charity.known_as AS "knownAs",
  charity.website,
  charity.city,
  charity.state,
  charity.ntee,
  charity.affiliation
`;

/** A charity that donations may go to. */
export const findEligibleCharity = (
  db: CommonQueryMethods,
  ein: Ein,
): Promise<CatalogueCharity | null> =>
  db.maybeOne(sql.type(charityRow)`
    SELECT ${columns}
    FROM charity
    WHERE charity.ein = ${ein} AND charity.eligible
  `);

const recordRow = charityRow.extend({
  eligible: z.boolean(),
  subsection: z.string(),
  deductibility: z.string(),
  extractedOn: z.string().nullable(),
});

/** All that the catalogue holds of an EIN, eligible or not. */
export const findCharityRecord = (
  db: CommonQueryMethods,
  ein: Ein,
): Promise<Readonly<z.output<typeof recordRow>> | null> =>
  db.maybeOne(sql.type(recordRow)`
    SELECT
      ${columns},
      charity.eligible,
      charity.subsection,
      charity.deductibility,
      charity.extracted_on::text AS "extractedOn"
    FROM charity
    WHERE charity.ein = ${ein}
  `);

/** How a name has to match: each word somewhere, or the whole nearly, which forgives typos. */
export type NameMatch = { readonly by: "words" | "similarity"; readonly search: SearchWords };

/** A short word has no trigram inside of it; only at a word's beginning does the index know it. */
const wordPattern = (word: string): string => (word.length < 3 ? `% ${word}%` : `%${word}%`);

const nameConditions = ({ by, search }: NameMatch): readonly FragmentSqlToken[] =>
  by === "similarity"
    ? [sql.fragment`${search.phrase} <% charity.search_text`]
    : search.words.map((word) => sql.fragment`charity.search_text LIKE ${wordPattern(word)}`);

type CatalogueQuery = { readonly name: NameMatch | null; readonly ein: Ein | null };

const conditions = ({ name, ein }: CatalogueQuery): ListSqlToken =>
  sql.join(
    [
      sql.fragment`charity.eligible`,
      ...(ein === null ? [] : [sql.fragment`charity.ein = ${ein}`]),
      ...(name === null ? [] : nameConditions(name)),
    ],
    sql.fragment` AND `,
  );

/** Well-known ones first; then those whose name begins so, and of these the shorter and the larger. */
const order = ({ name }: CatalogueQuery): FragmentSqlToken => {
  if (name === null) {
    return sql.fragment`charity.known_as = '', charity.ein`;
  }
  const closeness =
    name.by === "similarity"
      ? sql.fragment`word_similarity(${name.search.phrase}, charity.search_text) DESC`
      : sql.fragment`charity.search_text LIKE ${` ${name.search.phrase} %`} DESC`;
  return sql.fragment`
    ${closeness}, charity.known_as = '', length(charity.name), charity.income_code DESC, charity.ein
  `;
};

export const countCharities = async (
  db: CommonQueryMethods,
  query: CatalogueQuery,
): Promise<number> => {
  const { count } = await db.one(sql.type(z.strictObject({ count: z.bigint() }))`
    SELECT count(*) AS count
    FROM charity
    WHERE ${conditions(query)}
  `);
  return Number(count);
};

export const listCharities = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  page: { readonly offset: number; readonly limit: number },
): Promise<readonly CatalogueCharity[]> =>
  db.any(sql.type(charityRow)`
    SELECT ${columns}
    FROM charity
    WHERE ${conditions(query)}
    ORDER BY ${order(query)}
    LIMIT ${page.limit}
    OFFSET ${page.offset}
  `);
