import type { CommonQueryMethods, FragmentSqlToken, ListSqlToken } from "slonik";
import { z } from "zod";
import type { Ein } from "../../domain/charities/charities.ts";
import type { CharityLinks } from "../../domain/charities/charityLinks.ts";
import type { SearchWords } from "../../domain/charities/charitySearch.ts";
import { sql } from "../sql.ts";

const charityRow = z.strictObject({
  ein: z.string(),
  name: z.string(),
  sortName: z.string(),
  knownAs: z.string(),
  website: z.string(),
  iconUrl: z.string(),
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
  charity.icon_url AS "iconUrl",
  charity.city,
  charity.state,
  charity.ntee,
  charity.affiliation
`;

/** Returns a charity if it is eligible for donations. */
export const findEligibleCharity = (
  db: CommonQueryMethods,
  ein: Ein,
): Promise<CatalogueCharity | null> =>
  db.maybeOne(sql.prepared("find_eligible_charity", charityRow)`
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

/** Returns the catalogue's whole record of an EIN, eligible for donations or not. */
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

/**
 * How a name must match: by containing every word, by containing every word as a whole, or by similarity, which tolerates
 * typos.
 */
export type NameMatch = {
  readonly by: "similarity" | "wholeWords" | "words";
  readonly search: SearchWords;
};

/** A word of one or two letters contains no trigram; the index covers it only at the start of a word. */
const wordPattern = (word: string): string => (word.length < 3 ? `% ${word}%` : `%${word}%`);

const nameConditions = ({ by, search }: NameMatch): readonly FragmentSqlToken[] =>
  by === "similarity"
    ? [sql.fragment`${search.phrase} <% charity.search_text`]
    : search.words.map(
        (word) =>
          sql.fragment`charity.search_text LIKE ${by === "wholeWords" ? `% ${word} %` : wordPattern(word)}`,
      );

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

/** Orders by closeness of the name, then well-known, shorter and larger charities first. */
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

/**
 * Stores the websites and icons of charities, each at most once.
 * @returns the number of charities that the catalogue has
 */
export const updateCharityLinks = async (
  db: CommonQueryMethods,
  links: readonly CharityLinks[],
): Promise<number> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE charity
    SET
      website = coalesce(given.website, charity.website),
      icon_url = coalesce(given."iconUrl", charity.icon_url)
    FROM jsonb_to_recordset(${JSON.stringify(links)}::jsonb) AS given (ein text, website text, "iconUrl" text)
    WHERE charity.ein = given.ein
  `);
  return rowCount;
};
