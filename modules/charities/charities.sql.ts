import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Ein } from "./charities.rules.ts";
import type { CharityLinks } from "./charityLinks.rules.ts";
import { sql } from "../../db/sql.ts";

export const catalogueCharityRow = z.strictObject({
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
export type CatalogueCharity = Readonly<z.output<typeof catalogueCharityRow>>;

export const catalogueCharityColumns = sql.fragment`
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

/**
 * Returns the charities that have the given EINs and are eligible for donations. The planner does not see the EINs, so that
 * it keeps its plan whatever their number.
 */
export const listEligibleCharities = (
  db: CommonQueryMethods,
  eins: readonly Ein[],
): Promise<readonly CatalogueCharity[]> =>
  db.any(sql.prepared("list_eligible_charities", catalogueCharityRow)`
    SELECT ${catalogueCharityColumns}
    FROM charity
    WHERE charity.ein = ANY((SELECT ${sql.array([...eins], "text")})::text[]) AND charity.eligible
  `);

const recordRow = catalogueCharityRow.extend({
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
      ${catalogueCharityColumns},
      charity.eligible,
      charity.subsection,
      charity.deductibility,
      charity.extracted_on::text AS "extractedOn"
    FROM charity
    WHERE charity.ein = ${ein}
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
