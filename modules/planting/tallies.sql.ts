import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { TallyEntry } from "./tally.rules.ts";
import { columnsOf, safeInteger, sql } from "../../db/sql.ts";

/** Adds to accounts' planted trees, in the transaction of what changes them. */
export const addToTallies = async (
  transaction: DatabaseTransactionConnection,
  changes: readonly TallyEntry[],
) => {
  for (const { accountId, mode, siteId, factorId, planted, verified } of changes) {
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

const siteColumns = z.strictObject({
  partner: z.string(),
  name: z.string(),
  organizationName: z.string(),
  region: z.string(),
  country: z.string(),
  latitude: z.number(),
  longitude: z.number(),
});
const tallyColumns = z.strictObject({
  siteId: z.int(),
  factorId: z.string(),
  planted: safeInteger,
  verified: safeInteger,
});
const plantedSiteRow = tallyColumns.extend(siteColumns.shape);
export type PlantedSite = Readonly<z.output<typeof plantedSiteRow>>;

/** Lists the sites where an account's trees of production keys were planted, most trees first. */
export const listPlantedSites = (
  db: CommonQueryMethods,
  accountId: string,
  countsSimulated: boolean,
) =>
  db.any(sql.prepared("list_planted_sites", plantedSiteRow)`
    SELECT ${columnsOf("planting_tally", tallyColumns)}, ${columnsOf("planting_site", siteColumns)}
    FROM planting_tally
    JOIN planting_site ON planting_site.id = planting_tally.site_id
    WHERE planting_tally.account_id = ${accountId} AND planting_tally.mode = 'live' AND planting_tally.planted > 0
      AND (${countsSimulated} OR planting_site.partner <> 'simulated')
    ORDER BY planting_tally.planted DESC, planting_tally.site_id
  `);
