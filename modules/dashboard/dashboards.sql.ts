import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../../db/sql.ts";

const slugRow = z.strictObject({ slug: z.string() });

export const findDashboardSlug = (
  db: CommonQueryMethods,
  accountId: string,
): Promise<string | null> =>
  db.maybeOneFirst(sql.prepared("find_dashboard_slug", slugRow)`
    SELECT slug
    FROM dashboard
    WHERE account_id = ${accountId}
  `);

/** @returns the account's slug, which is an existing one if it had any */
export const insertDashboard = (
  db: CommonQueryMethods,
  dashboard: { readonly accountId: string; readonly slug: string; readonly createdAt: Date },
): Promise<string> =>
  db.oneFirst(sql.type(slugRow)`
    INSERT INTO dashboard (account_id, slug, created_at)
    VALUES (${dashboard.accountId}, ${dashboard.slug}, ${timestamp(dashboard.createdAt)})
    ON CONFLICT (account_id) DO UPDATE SET slug = dashboard.slug
    RETURNING slug
  `);

const accountRow = z.strictObject({ accountId: z.uuid(), name: z.string() });

/** Returns the account that a dashboard belongs to, with its own name. */
export const findDashboardAccount = (
  db: CommonQueryMethods,
  slug: string,
): Promise<z.output<typeof accountRow> | null> =>
  db.maybeOne(sql.prepared("find_dashboard_account", accountRow)`
    SELECT account.id AS "accountId", account.name
    FROM dashboard
    JOIN account ON account.id = dashboard.account_id
    WHERE dashboard.slug = ${slug}
  `);

/** @returns false if the slug is an alias already */
export const insertAlias = async (
  db: CommonQueryMethods,
  alias: { readonly slug: string; readonly accountId: string; readonly createdAt: Date },
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO dashboard_alias (slug, account_id, created_at)
    VALUES (${alias.slug}, ${alias.accountId}, ${timestamp(alias.createdAt)})
    ON CONFLICT (slug) DO NOTHING
  `);
  return rowCount === 1;
};

const aliasRow = z.strictObject({ accountId: z.uuid(), dashboardSlug: z.string() });

/** Returns the account that an old slug belongs to, and the slug of its dashboard. */
export const findSlugOwner = (
  db: CommonQueryMethods,
  slug: string,
): Promise<z.output<typeof aliasRow> | null> =>
  db.maybeOne(sql.type(aliasRow)`
    SELECT dashboard_alias.account_id AS "accountId", dashboard.slug AS "dashboardSlug"
    FROM dashboard_alias
    JOIN dashboard USING (account_id)
    WHERE dashboard_alias.slug = ${slug}
  `);

const foundSlugRow = z.strictObject({ slug: z.string(), dashboardSlug: z.string() });

/** Returns the slug of the dashboard that each slug belongs to, itself or as an alias. Unknown slugs are absent. */
export const findDashboardSlugs = async (
  db: CommonQueryMethods,
  slugs: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  const requested = sql.array(slugs, "text");
  const rows = await db.any(sql.type(foundSlugRow)`
    SELECT slug, slug AS "dashboardSlug"
    FROM dashboard
    WHERE slug = ANY(${requested})
    UNION ALL
    SELECT dashboard_alias.slug, dashboard.slug AS "dashboardSlug"
    FROM dashboard_alias
    JOIN dashboard USING (account_id)
    WHERE dashboard_alias.slug = ANY(${requested})
  `);
  // A dashboard's own slug comes first in the result and is the last to be set.
  return new Map(rows.toReversed().map(({ slug, dashboardSlug }) => [slug, dashboardSlug]));
};
