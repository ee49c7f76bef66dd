import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Ein, Charity } from "./charities.rules.ts";
import type { CharityLinks } from "./charityLinks.rules.ts";
import { sql, timestamp } from "../../db/sql.ts";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";

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

const charityJson: z.ZodType<Charity> = z.strictObject({
  nonprofitId: z.string(),
  name: z.string(),
  ein: z.string().nullable(),
  description: z.string(),
  website: z.string(),
  iconUrl: z.string(),
});

const charityRow = z.strictObject({ lookup: z.string(), charity: charityJson });

/** Returns the stored details of charities, by their look-ups, if they were fetched at `since` or later. */
export const findCharityDetails = async (
  db: CommonQueryMethods,
  provider: CharityProviderName,
  lookups: readonly string[],
  since: Date,
): Promise<ReadonlyMap<string, Charity>> => {
  const rows = await db.any(sql.prepared("find_charity_details", charityRow)`
    SELECT lookup, charity
    FROM charity_detail
    WHERE provider = ${provider}
      AND lookup = ANY((SELECT ${sql.array([...lookups], "text")})::text[])
      AND fetched_at >= ${timestamp(since)}
  `);
  return new Map(rows.map(({ lookup, charity }) => [lookup, charity]));
};

export const saveCharityDetail = async (
  db: CommonQueryMethods,
  provider: CharityProviderName,
  lookup: string,
  charity: Charity,
  fetchedAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO charity_detail (provider, lookup, charity, fetched_at)
    VALUES (${provider}, ${lookup}, ${JSON.stringify(charity)}::jsonb, ${timestamp(fetchedAt)})
    ON CONFLICT (provider, lookup) DO UPDATE
    SET charity = excluded.charity, fetched_at = excluded.fetched_at
  `);
};
