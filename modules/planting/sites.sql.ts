import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Mode } from "../records/owner.rules.ts";
import { plantingFact, sitesOf } from "./fact.rules.ts";
import type { ReportedSite } from "./fact.rules.ts";
import type { PlantingOrder } from "./order.rules.ts";
import { safeInteger, afterLookup, sql, timestamp } from "../../db/sql.ts";

const idRow = z.strictObject({ id: z.int() });

const findCurrentSite = (
  transaction: DatabaseTransactionConnection,
  partner: string,
  site: ReportedSite,
  factId: number,
): Promise<number | null> =>
  transaction.maybeOneFirst(sql.type(idRow)`
    SELECT id
    FROM planting_site
    WHERE partner = ${partner}
      AND reference = ${site.reference}
      AND (
        fact_id > ${factId}
        OR (
          fact_id IS NOT NULL
          AND name = ${site.name}
          AND subsite_name = ${site.subsite_name}
          AND organization_name = ${site.organization_name}
          AND region = ${site.region}
          AND country = ${site.country}
          AND forest_type = ${site.forest_type}
          AND latitude = ${site.latitude}
          AND longitude = ${site.longitude}
          AND main_image = ${site.main_image}
        )
      )
  `);

const writeSite = (
  transaction: DatabaseTransactionConnection,
  partner: string,
  site: ReportedSite,
  factId: number,
): Promise<number | null> =>
  transaction.maybeOneFirst(sql.type(idRow)`
    INSERT INTO planting_site AS known
      (partner, reference, name, subsite_name, organization_name, region, country, forest_type, latitude, longitude,
       main_image, fact_id)
    VALUES (
      ${partner}, ${site.reference}, ${site.name}, ${site.subsite_name}, ${site.organization_name}, ${site.region},
      ${site.country}, ${site.forest_type}, ${site.latitude}, ${site.longitude}, ${site.main_image}, ${factId}
    )
    ON CONFLICT (partner, reference) DO UPDATE SET
      name = excluded.name,
      subsite_name = excluded.subsite_name,
      organization_name = excluded.organization_name,
      region = excluded.region,
      country = excluded.country,
      forest_type = excluded.forest_type,
      latitude = excluded.latitude,
      longitude = excluded.longitude,
      main_image = excluded.main_image,
      fact_id = excluded.fact_id
    -- A concurrent report may have written a later fact.
    WHERE known.fact_id IS NULL OR known.fact_id <= excluded.fact_id
    RETURNING id
  `);

/**
 * Stores the details of a partner's site, unless a later fact has set others, and returns its id. A site that does not
 * change is not locked: most orders share few sites, which their reports name in any order.
 * @param factId the accepted fact that names the site
 */
export const upsertSite = async (
  transaction: DatabaseTransactionConnection,
  partner: string,
  site: ReportedSite,
  factId: number,
): Promise<number> =>
  (await findCurrentSite(transaction, partner, site, factId)) ??
  (await writeSite(transaction, partner, site, factId)) ??
  transaction.oneFirst(sql.type(idRow)`
    SELECT id
    FROM planting_site
    WHERE partner = ${partner} AND reference = ${site.reference}
  `);

const namedSiteRow = z.strictObject({
  /** Null for facts that name none of the sites. */
  reference: z.string().nullable(),
  id: safeInteger,
  content: plantingFact.nullable(),
  oldestId: safeInteger,
});

/**
 * Most sites are found on the first page. All facts, which may be millions, would take too long. Pages are small enough that
 * the planner reads them by the primary key without statistics, too.
 */
const FACT_PAGES = [100, ...Array.from({ length: 100 }, () => 1000)];

/**
 * Searches a page of the accepted facts of all partners that name sites, newest first. Returns the last fact that names each
 * of a partner's sites, and the page's oldest id.
 */
const searchFactsOfSites = (
  transaction: DatabaseTransactionConnection,
  partner: string,
  references: readonly string[],
  page: { readonly before: number | null; readonly limit: number },
): Promise<readonly z.output<typeof namedSiteRow>[]> =>
  transaction.any(sql.type(namedSiteRow)`
    SELECT DISTINCT ON (named.reference)
      named.reference,
      recent.id,
      CASE WHEN named.reference IS NOT NULL THEN recent.content END AS content,
      min(recent.id) OVER () AS "oldestId"
    FROM (
      SELECT id, order_id, content
      FROM planting_fact
      -- Statistics that have seen few such facts do not lead to a scan of the whole table.
      WHERE ${afterLookup(sql.fragment`state = 'accepted' AND stage IN ('allocated', 'planted_and_verified')`)}
      ${page.before === null ? sql.fragment`` : sql.fragment`AND id < ${page.before}`}
      ORDER BY id DESC
      LIMIT ${page.limit}
    ) AS recent
    LEFT JOIN LATERAL (
      SELECT part -> 'planting_site' ->> 'reference' AS reference
      FROM jsonb_array_elements(coalesce(content -> 'allocations', jsonb_build_array(content))) AS part
      CROSS JOIN LATERAL (
        SELECT
        FROM planting_order
        WHERE planting_order.id = recent.order_id AND planting_order.partner = ${partner}
        LIMIT 1
      ) AS planting_order
      WHERE part -> 'planting_site' ->> 'reference' = ANY(${sql.array(references, "text")})
    ) AS named ON true
    ORDER BY named.reference, recent.id DESC
  `);

const referenceRow = z.strictObject({ reference: z.string() });

/**
 * Gives the sites whose details come from facts of an order that are no longer in effect those of the latest fact that
 * is. A site that none of some 100,000 facts names keeps its details until the next one.
 */
export const restoreSites = async (
  transaction: DatabaseTransactionConnection,
  { id, partner }: Pick<PlantingOrder, "id" | "partner">,
): Promise<void> => {
  let references = await transaction.anyFirst(sql.type(referenceRow)`
    UPDATE planting_site
    SET fact_id = NULL
    FROM planting_fact
    WHERE planting_fact.id = planting_site.fact_id
      AND planting_fact.order_id = ${id}
      AND planting_fact.state <> 'accepted'
    RETURNING planting_site.reference
  `);
  let before: number | null = null;
  for (const limit of FACT_PAGES) {
    if (references.length === 0) {
      return;
    }
    const facts = await searchFactsOfSites(transaction, partner, references, { before, limit });
    const [first] = facts;
    if (!first) {
      return;
    }
    before = first.oldestId;
    for (const { content, id: factId, reference } of facts) {
      const site = content && sitesOf(content).findLast((named) => named.reference === reference);
      if (site) {
        await upsertSite(transaction, partner, site, factId);
      }
    }
    references = references.filter((name) => !facts.some(({ reference }) => reference === name));
  }
};

/** What a partner's reference identifies, beside sites. */
export type ReferenceKind = "allocation" | "field_update" | "planting_session";

/** Returns the integer that evidence shows for a partner's reference: always the same one. A known one is not locked. */
export const getOrCreateReferenceId = async (
  transaction: DatabaseTransactionConnection,
  partner: string,
  kind: ReferenceKind,
  reference: string,
): Promise<number> =>
  (await transaction.maybeOneFirst(sql.type(idRow)`
    SELECT id
    FROM partner_reference
    WHERE partner = ${partner} AND kind = ${kind} AND reference = ${reference}
  `)) ??
  transaction.oneFirst(sql.type(idRow)`
    INSERT INTO partner_reference (partner, kind, reference)
    VALUES (${partner}, ${kind}, ${reference})
    ON CONFLICT (partner, kind, reference) DO UPDATE SET reference = excluded.reference
    RETURNING id
  `);

/** A photo or video that proves planting. */
export type PlantingMedia = {
  readonly type: "photo" | "image" | "video";
  readonly url: string;
  readonly thumbnailUrl: string;
  readonly latitude: number;
  readonly longitude: number;
};

export const insertMedia = async (
  transaction: DatabaseTransactionConnection,
  proof: {
    readonly orderId: number;
    readonly accountId: string;
    readonly mode: Mode;
    readonly siteId: number;
    readonly takenAt: Date;
    readonly media: readonly PlantingMedia[];
  },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO planting_media
      (order_id, account_id, mode, site_id, type, url, thumbnail_url, latitude, longitude, taken_at)
    SELECT
      ${proof.orderId}, ${proof.accountId}, ${proof.mode}, ${proof.siteId}, type, url, "thumbnailUrl", latitude,
      longitude, ${timestamp(proof.takenAt)}
    FROM jsonb_to_recordset(${JSON.stringify(proof.media)}::jsonb) AS medium (
      type text, url text, "thumbnailUrl" text, latitude double precision, longitude double precision
    )
  `);
};

export const deleteMedia = async (
  transaction: DatabaseTransactionConnection,
  orderId: number,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM planting_media
    WHERE order_id = ${orderId}
  `);
};

const mediaRow = z.strictObject({
  id: z.bigint().transform(String),
  type: z.string(),
  url: z.string(),
  thumbnailUrl: z.string(),
  takenAt: z.date(),
  partner: z.string(),
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
export type ShownMedia = Readonly<z.output<typeof mediaRow>>;

/** The latest media among which each site gets its share, so that a busy site does not hide the others. */
const LATEST = 100;

/** Lists the latest media of an account's trees that are not refunded, taking turns between its sites. */
export const listLatestMedia = (
  db: CommonQueryMethods,
  accountId: string,
  limit: number,
  countsSimulated: boolean,
): Promise<readonly ShownMedia[]> =>
  db.any(sql.type(mediaRow)`
    SELECT
      latest.id,
      latest.type,
      latest.url,
      latest.thumbnail_url AS "thumbnailUrl",
      latest.taken_at AS "takenAt",
      planting_site.partner,
      latest.site_id AS "siteId",
      planting_site.name AS "siteName",
      planting_site.country,
      planting_order.tree_count - planting_order.refunded_count AS trees,
      latest.taken_at IS NOT DISTINCT FROM planting_order.verified_at AS "isOfVerification",
      coalesce(verification.evidence -> 'species', '[]') AS species
    FROM (
      SELECT
        id, order_id, site_id, type, url, thumbnail_url, taken_at,
        row_number() OVER (PARTITION BY site_id ORDER BY id DESC) AS rank
      FROM (
        SELECT id, order_id, site_id, type, url, thumbnail_url, taken_at
        FROM planting_media
        WHERE account_id = ${accountId} AND mode = 'live'
          -- Refunded trees no longer count for the account, so it shows no photos of an order that has no others.
          AND EXISTS (
            SELECT
            FROM planting_order
            WHERE planting_order.id = planting_media.order_id AND refunded_count < tree_count
          )
          ${
            countsSimulated
              ? sql.fragment``
              : sql.fragment`AND site_id NOT IN (SELECT id FROM planting_site WHERE partner = 'simulated')`
          }
        ORDER BY id DESC
        LIMIT ${LATEST}
      ) AS recent
    ) AS latest
    JOIN planting_site ON planting_site.id = latest.site_id
    JOIN planting_order ON planting_order.id = latest.order_id
    LEFT JOIN planting_fact AS verification
      ON verification.order_id = latest.order_id AND verification.stage = 'planted_and_verified'
      AND verification.state = 'accepted'
    ORDER BY latest.rank, latest.id DESC
    LIMIT ${limit}
  `);
