import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import type { SummarizedTrees } from "./cachedResponses.sql.ts";

// This file reads the totals of registrations itself, because the summary is one statement.

const summaryRow = z.strictObject({
  registeredTrees: safeInteger,
  planted: z.array(z.strictObject({ factorId: z.string(), trees: z.int() })),
  regions: z.array(
    z.strictObject({
      region: z.string(),
      country: z.string(),
      media: z.array(
        z.strictObject({ id: z.string(), type: z.string(), url: z.string(), date: z.string() }),
      ),
    }),
  ),
});
type SummaryRow = Readonly<z.output<typeof summaryRow>>;

export type PlantedRegion = SummaryRow["regions"][number];

/**
 * Reads what all accounts have registered in a mode, without refunded trees, and which of it was planted: either in a
 * simulation or in reality. It returns the planted trees by impact factor, and their regions with the latest media of each site. A sum that exceeds a safe
 * integer is capped at the largest one. It is one statement, so that its parts agree. A transaction with one snapshot would
 * not do: the snapshot would be older than the lock of the summary.
 */
export const readSummary = (
  db: CommonQueryMethods,
  mediaPerSite: number,
  { mode, isSimulated }: SummarizedTrees,
): Promise<SummaryRow> =>
  db.one(sql.type(summaryRow)`
    WITH
      -- The table has rows of every account, so it is read once.
      tally AS MATERIALIZED (
        SELECT site_id, factor_id, sum(planted) AS planted
        FROM planting_tally
        JOIN planting_site ON planting_site.id = planting_tally.site_id
        WHERE mode = ${mode} AND (planting_site.partner = 'simulated') = ${isSimulated}
        GROUP BY 1, 2
        HAVING sum(planted) > 0
      ),
      planted_part AS (
        SELECT factor_id AS "factorId", least(sum(planted), ${Number.MAX_SAFE_INTEGER})::bigint AS trees
        FROM tally
        GROUP BY 1
      ),
      planted_region AS (
        SELECT
          planting_site.region,
          planting_site.country,
          coalesce(
            jsonb_agg(
              jsonb_build_object(
                'id', latest.id::text,
                'type', latest.type,
                'url', latest.url,
                'date', to_char(latest.taken_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
              )
              ORDER BY latest.id DESC
            ) FILTER (WHERE latest.id IS NOT NULL),
            '[]'
          ) AS media
        FROM planting_site
        LEFT JOIN LATERAL (
          SELECT id, type, url, taken_at
          FROM planting_media
          WHERE planting_media.site_id = planting_site.id AND mode = ${mode}
          ORDER BY id DESC
          LIMIT ${mediaPerSite}
        ) AS latest ON true
        WHERE planting_site.id IN (SELECT site_id FROM tally)
        GROUP BY planting_site.country, planting_site.region
      )
    SELECT
      (
        SELECT least(coalesce(sum(total), 0), ${Number.MAX_SAFE_INTEGER})::bigint
        FROM impact_total
        WHERE mode = ${mode} AND kind = ${sql.literalValue(PLANTED_KIND)} AND period = 'all'
      ) AS "registeredTrees",
      (SELECT coalesce(jsonb_agg(planted_part ORDER BY "factorId"), '[]') FROM planted_part) AS planted,
      (SELECT coalesce(jsonb_agg(planted_region ORDER BY country, region), '[]') FROM planted_region) AS regions
  `);
