import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { Ein } from "../../domain/charities/charities.ts";
import type { NameSet, WordGroups } from "../../domain/charities/wordGroups.ts";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";
import type { CatalogueCharity } from "./charities.ts";
import { catalogueCharityColumns, catalogueCharityRow } from "./charities.ts";

/** The last value of `charity.tier`. */
const LAST_TIER = 30;

/** How a name must match; `phrase` is the whole search. */
export type NameMatch =
  /** By having a word of each group. Charities of one tier after another are read, so few that are not returned. */
  | { readonly by: "tiers"; readonly phrase: string; readonly words: WordGroups }
  /** By being in one of the sets and containing every part. */
  | {
      readonly by: "sets";
      readonly phrase: string;
      readonly parts: readonly string[];
      readonly sets: readonly NameSet[];
    };

export type CatalogueQuery = { readonly name: NameMatch | null; readonly ein: Ein | null };

const MINIMUM_INNER_LENGTH = 3;

/** One or two letters must begin a word. */
const partPattern = (part: string): string =>
  part.length < MINIMUM_INNER_LENGTH ? `% ${part}%` : `%${part}%`;

/** The words are an unknown to the planner, because its estimates for many words would choose to read the whole table. */
const nameHas = (operator: FragmentSqlToken, words: readonly string[]): FragmentSqlToken =>
  sql.fragment`string_to_array(btrim(charity.search_text), ' ') ${operator} (SELECT ${sql.array(words, "text")})`;

/** Words that a name must have are one condition, because the index intersects the words of one faster. */
const groupsConditions = (
  groups: WordGroups,
  has: (operator: FragmentSqlToken, words: readonly string[]) => FragmentSqlToken,
): readonly FragmentSqlToken[] => {
  const required = groups.filter((words) => words.length === 1).flat();
  return [
    ...(required.length > 0 ? [has(sql.fragment`@>`, required)] : []),
    ...groups.filter((words) => words.length !== 1).map((words) => has(sql.fragment`&&`, words)),
  ];
};

const setConditions = ({ groups, except }: NameSet): readonly FragmentSqlToken[] => [
  ...groupsConditions(groups, nameHas),
  ...except.map(
    (excepted) =>
      sql.fragment`NOT (${sql.join(groupsConditions(excepted, nameHas), sql.fragment` AND `)})`,
  ),
];

const limitTo = (maximum: number | null): FragmentSqlToken =>
  maximum === null ? sql.fragment`` : sql.fragment`LIMIT ${maximum}`;

const selectWhere = (
  conditions: readonly FragmentSqlToken[],
  maximum: number | null,
  setNumber = 0,
): FragmentSqlToken => sql.fragment`
  SELECT charity.*, charity.tier AS position, ${setNumber}::integer AS set_number
  FROM charity
  WHERE ${sql.join([sql.fragment`charity.eligible`, ...conditions], sql.fragment` AND `)}
  ${limitTo(maximum)}
`;

const tierHas = (operator: FragmentSqlToken, words: readonly string[]): FragmentSqlToken =>
  sql.fragment`charity_words(charity.search_text, charity.tier) ${operator} charity_words(${words.join(" ")}, tier.number)`;

/** PostgreSQL knows that the tiers arrive in order, so a list of few charities reads few tiers. */
const selectByTiers = (
  conditions: readonly FragmentSqlToken[],
  words: WordGroups,
  maximum: number | null,
): FragmentSqlToken => sql.fragment`
  SELECT charity.*, tier.position, 0 AS set_number
  FROM generate_series(0, ${LAST_TIER}) WITH ORDINALITY AS tier (number, position)
  CROSS JOIN charity
  WHERE ${sql.join(
    [sql.fragment`charity.eligible`, ...conditions, ...groupsConditions(words, tierHas)],
    sql.fragment` AND `,
  )}
  ${limitTo(maximum)}
`;

/**
 * Returns a query of the charities that match.
 * @param maximum the most matches to return; if there are more, which ones are returned is undefined
 */
const selectMatches = ({ name, ein }: CatalogueQuery, maximum: number | null): FragmentSqlToken => {
  const sameEin = ein === null ? [] : [sql.fragment`charity.ein = ${ein}`];
  if (name === null) {
    return selectWhere(sameEin, maximum);
  }
  if (name.by === "tiers") {
    return selectByTiers(sameEin, name.words, maximum);
  }
  const parts = name.parts.map(
    (part) => sql.fragment`charity.search_text LIKE ${partPattern(part)}`,
  );
  // One set after another is read, until the maximum is reached.
  return sql.fragment`
    ${sql.join(
      name.sets.map(
        (set, index) =>
          sql.fragment`(${selectWhere([...sameEin, ...setConditions(set), ...parts], null, index)})`,
      ),
      sql.fragment` UNION ALL `,
    )}
    ${limitTo(maximum)}
  `;
};

/** `closest` compares all matches with the search; `tiers` puts larger charities first. */
type SearchOrder = "closest" | "tiers";

const ordering = ({ name }: CatalogueQuery, order: SearchOrder): FragmentSqlToken => {
  if (name === null) {
    return sql.fragment`charity.known_as = '', charity.ein`;
  }
  if (order === "tiers") {
    return sql.fragment`charity.position, length(charity.name), charity.ein`;
  }
  return sql.fragment`
    charity.search_text LIKE ${` ${name.phrase} %`} DESC,
    charity.known_as = '',
    length(charity.name),
    charity.income_code DESC,
    charity.ein
  `;
};

const countRow = z.strictObject({ count: safeInteger });

/** Returns the number of matches, or the limit if there are more. */
export const countCharities = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  limit: number,
): Promise<number> =>
  db.oneFirst(sql.type(countRow)`
    SELECT count(*) AS count
    FROM (${selectMatches(query, limit)}) AS charity
  `);

type Page = { readonly offset: number; readonly limit: number };

/** Lists matches in the order of their tiers, which reads few others. */
export const listCharities = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  { offset, limit }: Page,
): Promise<readonly CatalogueCharity[]> =>
  db.any(sql.type(catalogueCharityRow)`
    SELECT ${catalogueCharityColumns}
    FROM (${selectMatches(query, null)}) AS charity
    ORDER BY ${ordering(query, "tiers")}
    LIMIT ${limit}
    OFFSET ${offset}
  `);

const rankedRow = catalogueCharityRow.extend({
  total: safeInteger,
  totalOfFirstSet: safeInteger,
});

/**
 * Lists some matches, the closest first, each with their total and the total of those in the first set.
 * @param maximum the most matches to return; if there are more, which ones are returned is undefined
 */
export const listClosestCharities = (
  db: CommonQueryMethods,
  query: CatalogueQuery,
  maximum: number,
  { offset, limit }: Page,
): Promise<readonly Readonly<z.output<typeof rankedRow>>[]> =>
  db.any(sql.type(rankedRow)`
    SELECT
      ${catalogueCharityColumns},
      count(*) OVER () AS total,
      count(*) FILTER (WHERE charity.set_number = 0) OVER () AS "totalOfFirstSet"
    FROM (${selectMatches(query, maximum)}) AS charity
    ORDER BY ${ordering(query, "closest")}
    LIMIT ${limit}
    OFFSET ${offset}
  `);
