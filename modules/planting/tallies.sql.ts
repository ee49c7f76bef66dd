import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { TallyEntry } from "./tally.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";

/** Adds to an account's planted trees, in the transaction of what changes them. */
export const addToTally = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode }: AccountMode,
  changes: readonly TallyEntry[],
): Promise<void> => {
  for (const { siteId, factorId, planted, verified } of changes) {
    const { rowCount } = await transaction.query(sql.typeAlias("void")`
      UPDATE planting_tally
      SET planted = planted + ${planted}, verified = verified + ${verified}
      WHERE account_id = ${accountId} AND mode = ${mode} AND site_id = ${siteId} AND factor_id = ${factorId}
    `);
    if (rowCount === 0) {
      await transaction.query(sql.typeAlias("void")`
        INSERT INTO planting_tally (account_id, mode, site_id, factor_id, planted, verified)
        VALUES (${accountId}, ${mode}, ${siteId}, ${factorId}, ${planted}, ${verified})
        ON CONFLICT (account_id, mode, site_id, factor_id) DO UPDATE SET
          planted = planting_tally.planted + excluded.planted,
          verified = planting_tally.verified + excluded.verified
      `);
    }
  }
};

const plantedSiteRow = z.strictObject({
  siteId: z.int(),
  partner: z.string(),
  name: z.string(),
  organizationName: z.string(),
  region: z.string(),
  country: z.string(),
  latitude: z.number(),
  longitude: z.number(),
  factorId: z.string(),
  planted: safeInteger,
  verified: safeInteger,
});
export type PlantedSite = Readonly<z.output<typeof plantedSiteRow>>;

/** Lists the sites where an account's trees of production keys were planted, most trees first. */
export const listPlantedSites = (
  db: CommonQueryMethods,
  accountId: string,
  countsSimulated: boolean,
): Promise<readonly PlantedSite[]> =>
  db.any(sql.prepared("list_planted_sites", plantedSiteRow)`
    SELECT
      planting_tally.site_id AS "siteId",
      planting_site.partner,
      planting_site.name,
      planting_site.organization_name AS "organizationName",
      planting_site.region,
      planting_site.country,
      planting_site.latitude,
      planting_site.longitude,
      planting_tally.factor_id AS "factorId",
      planting_tally.planted,
      planting_tally.verified
    FROM planting_tally
    JOIN planting_site ON planting_site.id = planting_tally.site_id
    WHERE planting_tally.account_id = ${accountId} AND planting_tally.mode = 'live' AND planting_tally.planted > 0
      AND (${countsSimulated} OR planting_site.partner <> 'simulated')
    ORDER BY planting_tally.planted DESC, planting_tally.site_id
  `);
