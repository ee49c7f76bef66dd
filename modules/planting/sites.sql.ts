import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { ReportedSite } from "./fact.rules.ts";
import { identifiers, safeInteger, sql } from "../../db/sql.ts";

const siteRow = z.strictObject({ reference: z.string(), id: z.int() });

const DETAILS = [
  "name",
  "subsite_name",
  "organization_name",
  "region",
  "country",
  "forest_type",
  "latitude",
  "longitude",
  "main_image",
] as const satisfies readonly (keyof ReportedSite)[];

const detailsOf = (...table: readonly string[]) => identifiers(DETAILS, ...table);

/**
 * Stores the details of a partner's sites. A site that does not change is not locked: most orders share few sites. Of several
 * details of one site, the last are stored.
 */
export const storeSites = async (
  transaction: DatabaseTransactionConnection,
  partner: string,
  sites: readonly ReportedSite[],
) => {
  if (sites.length === 0) {
    return;
  }
  const named = [...new Map(sites.map((site) => [site.reference, site])).values()];
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO planting_site (partner, reference, ${detailsOf()})
    SELECT ${partner}, named.reference, ${detailsOf("named")}
    FROM jsonb_populate_recordset(NULL::planting_site, ${JSON.stringify(named)}::jsonb) AS named
    LEFT JOIN planting_site AS current ON current.partner = ${partner} AND current.reference = named.reference
    WHERE (${detailsOf("current")}) IS DISTINCT FROM (${detailsOf("named")})
    -- Always in the same order, so that two transactions cannot deadlock.
    ORDER BY named.reference
    ON CONFLICT (partner, reference) DO UPDATE SET (${detailsOf()}) = (${detailsOf("excluded")})
  `);
};

export const listSiteIds = async (
  db: CommonQueryMethods,
  partner: string,
  references: readonly string[],
) => {
  const stored = await db.any(sql.type(siteRow)`
    SELECT reference, id
    FROM planting_site
    WHERE partner = ${partner} AND reference = ANY(${sql.array([...references], "text")})
  `);
  return new Map(stored.map(({ reference, id }) => [reference, id]));
};

/** The photos and videos of an accepted `planting_fact`, as a table that follows it. */
export const mediaOfFact = sql.fragment`
  LATERAL (
    SELECT
      place,
      planting_fact.id || '-' || place AS id,
      coalesce(item ->> 'type', 'photo') AS type,
      coalesce(item ->> 'url', item #>> '{}') AS url,
      coalesce(item ->> 'thumbnail_url', item #>> '{}') AS thumbnail_url
    -- A verification has the URLs of its photos.
    FROM jsonb_array_elements(coalesce(content -> 'media', content -> 'photos')) WITH ORDINALITY AS part (item, place)
  )
`;

const mediaRow = z.strictObject({
  id: z.string(),
  type: z.string(),
  url: z.string(),
  thumbnailUrl: z.string(),
  takenAt: z.date(),
  siteId: z.int(),
  siteName: z.string(),
  country: z.string(),
  /** Trees of the order that it belongs to, without refunded ones. */
  trees: safeInteger,
  /** Whether it was taken when the order was verified, not when it was planted. */
  isOfVerification: z.boolean(),
  /** Empty until an assessor has reported them. */
  species: z.array(z.string()),
});

/** The latest orders among whose photos each site gets its share, so that a busy site does not hide the others. */
const LATEST_ORDERS = 50;

/** Lists the latest media of an account's trees that are not refunded, taking turns between its sites. */
export const listLatestMedia = (
  db: CommonQueryMethods,
  accountId: string,
  limit: number,
  countsSimulated: boolean,
) =>
  db.any(sql.type(mediaRow)`
    SELECT
      latest.id,
      latest.type,
      latest.url,
      latest.thumbnail_url AS "thumbnailUrl",
      latest.occurred_at AS "takenAt",
      planting_site.id AS "siteId",
      planting_site.name AS "siteName",
      planting_site.country,
      latest.trees,
      latest.stage = 'planted_and_verified' AS "isOfVerification",
      coalesce(verification.content -> 'species', '[]') AS species
    FROM (
      SELECT
        medium.*, planting_fact.id AS fact_id, order_id, stage, occurred_at, planting_fact.site_id, trees,
        row_number() OVER (PARTITION BY planting_fact.site_id ORDER BY planting_fact.id DESC, place DESC) AS rank
      FROM (
        SELECT id, tree_count - refunded_count AS trees
        FROM planting_order
        -- Refunded trees no longer count for the account, so it shows no photos of an order that has no others.
        WHERE account_id = ${accountId} AND mode = 'live' AND planted_at IS NOT NULL AND refunded_count < tree_count
          AND (${countsSimulated} OR partner <> 'simulated')
        ORDER BY id DESC
        LIMIT ${LATEST_ORDERS}
      ) AS recent
      JOIN planting_fact
        ON order_id = recent.id AND state = 'accepted' AND stage IN ('planted', 'planted_and_verified')
      CROSS JOIN ${mediaOfFact} AS medium
    ) AS latest
    JOIN planting_site ON planting_site.id = latest.site_id
    LEFT JOIN planting_fact AS verification
      ON verification.order_id = latest.order_id AND verification.stage = 'planted_and_verified'
      AND verification.state = 'accepted'
    ORDER BY latest.rank, latest.fact_id DESC, latest.place DESC
    LIMIT ${limit}
  `);
