import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../../db/sql.ts";
import { withCell } from "../records/cells.sql.ts";

const slugRow = z.strictObject({ slug: z.string() });

export const findDashboardSlug = (
  db: CommonQueryMethods,
  accountId: string,
): Promise<string | null> =>
  db.maybeOneFirst(sql.prepared("find_dashboard_slug", slugRow)`
    SELECT slug
    FROM dashboard
    WHERE account_id = ${accountId} AND NOT is_alias
  `);

type NewSlug = { readonly accountId: string; readonly slug: string; readonly createdAt: Date };

/** @returns the account's own slug, which is an existing one if it had any */
export const insertDashboard = (
  db: CommonQueryMethods,
  { accountId, slug, createdAt }: NewSlug,
): Promise<string> =>
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
): Promise<boolean> => {
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
export const findDashboards = async (
  db: CommonQueryMethods,
  slugs: readonly string[],
): Promise<ReadonlyMap<string, FoundDashboard>> => {
  const rows = await db.any(sql.prepared("find_dashboards", foundRow)`
    SELECT dashboard.slug, account.id AS "accountId", account.name, own.slug AS "ownSlug"
    FROM dashboard
    JOIN dashboard AS own ON own.account_id = dashboard.account_id AND NOT own.is_alias
    JOIN account ON account.id = dashboard.account_id
    WHERE dashboard.slug = ANY(${sql.array(slugs, "text")})
  `);
  return new Map(rows.map((row) => [row.slug, row]));
};
