import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { withCell } from "../records/cells.sql.ts";

const slugRow = z.strictObject({ slug: z.string() });

export const findDashboardSlug = (db: CommonQueryMethods, accountId: string) =>
  db.maybeOneFirst(sql.prepared("find_dashboard_slug", slugRow)`
    SELECT slug FROM dashboard WHERE account_id = ${accountId} AND NOT is_alias
  `);

type NewSlug = { readonly accountId: string; readonly slug: string; readonly createdAt: Date };

/** @returns the account's own slug, which is an existing one if it had any */
export const insertDashboard = (db: CommonQueryMethods, { accountId, slug, createdAt }: NewSlug) =>
  db.oneFirst(sql.type(slugRow)`
    INSERT INTO dashboard (account_id, slug, created_at)
    VALUES (${accountId}, ${withCell(slug)}, ${timestamp(createdAt)})
    ON CONFLICT (account_id) WHERE NOT is_alias DO UPDATE SET slug = dashboard.slug
    RETURNING slug
  `);

/** @returns false if the slug is known already */
export const insertAlias = async (
  db: CommonQueryMethods,
  { accountId, slug, createdAt }: NewSlug,
) => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO dashboard (account_id, slug, is_alias, created_at)
    VALUES (${accountId}, ${slug}, true, ${timestamp(createdAt)})
    ON CONFLICT (slug) DO NOTHING
  `);
  return rowCount === 1;
};

const foundRow = z.strictObject({
  slug: z.string(),
  accountId: z.uuid(),
  name: z.string(),
  /** Differs from the slug if that is an alias. */
  ownSlug: z.string(),
});
export type FoundDashboard = Readonly<z.output<typeof foundRow>>;

/** Returns the account that each slug belongs to, as its own or as an alias. Unknown slugs are absent. */
export const findDashboards = async (db: CommonQueryMethods, slugs: readonly string[]) => {
  const rows = await db.any(sql.prepared("find_dashboards", foundRow)`
    SELECT dashboard.slug, account.id AS "accountId", account.name, own.slug AS "ownSlug"
    FROM dashboard
    JOIN dashboard AS own ON own.account_id = dashboard.account_id AND NOT own.is_alias
    JOIN account ON account.id = dashboard.account_id
    WHERE dashboard.slug = ANY(${sql.array(slugs, "text")})
  `);
  return new Map(rows.map((row) => [row.slug, row]));
};

const verifiedRow = z.strictObject({
  verifier: z.string(),
  partner: z.string(),
  planters: z.array(z.string()),
  trees: safeInteger,
  latestAt: z.date(),
  /** The URL of the latest document; a path for one of this service. */
  document: z.string(),
});

/** Trees that one verifier has verified for one partner and site. */
export type VerifiedTrees = Readonly<z.output<typeof verifiedRow>>;

/** An account with more planting orders has verifications that are not listed. */
const LATEST_ORDERS = 1000;

/** Lists who has verified the trees of an account's latest planting orders, without refunded ones. */
export const listVerifications = (
  db: CommonQueryMethods,
  accountId: string,
  countsSimulated: boolean,
) =>
  db.any(sql.prepared("list_verifications", verifiedRow)`
    SELECT
      fact.content ->> 'verifier' AS verifier,
      latest.partner,
      ARRAY[latest.partner_name, fact.content -> 'planting_site' ->> 'organization_name'] AS planters,
      least(sum(latest.trees), ${Number.MAX_SAFE_INTEGER})::bigint AS trees,
      max(fact.occurred_at) AS "latestAt",
      (array_agg(fact.content ->> 'image_url' ORDER BY fact.occurred_at DESC))[1] AS document
    FROM (
      SELECT id, partner, partner_name, tree_count - refunded_count AS trees
      FROM planting_order
      WHERE account_id = ${accountId} AND mode = 'live'
      ORDER BY id DESC
      LIMIT ${sql.literalValue(String(LATEST_ORDERS))}
    ) AS latest
    JOIN planting_fact AS fact
      ON fact.order_id = latest.id AND fact.stage = 'planted_and_verified' AND fact.state = 'accepted'
    WHERE latest.trees > 0 AND (${countsSimulated} OR latest.partner <> 'simulated')
    GROUP BY 1, 2, 3
  `);
