import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Charity, CharityProviderName } from "../../domain/charities/charities.ts";
import { sql, timestamp } from "../sql.ts";

const charityJson: z.ZodType<Charity> = z.strictObject({
  nonprofitId: z.string(),
  name: z.string(),
  ein: z.string().nullable(),
  description: z.string(),
  website: z.string(),
  iconUrl: z.string(),
});

const charityRow = z.strictObject({ charity: charityJson });

/** Returns the stored details of a charity if they were fetched at `since` or later. */
export const findCharityDetail = async (
  db: CommonQueryMethods,
  provider: CharityProviderName,
  lookup: string,
  since: Date,
): Promise<Charity | null> => {
  const row = await db.maybeOne(sql.prepared("find_charity_detail", charityRow)`
    SELECT charity
    FROM charity_detail
    WHERE provider = ${provider} AND lookup = ${lookup} AND fetched_at >= ${timestamp(since)}
  `);
  return row?.charity ?? null;
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
