import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Charity } from "./charities.rules.ts";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import { sql, timestamp } from "../../db/sql.ts";

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
