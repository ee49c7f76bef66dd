import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const slugRow = z.strictObject({ slug: z.string() });

export const findDashboardSlug = (
  db: CommonQueryMethods,
  accountId: string,
): Promise<string | null> =>
  db.maybeOneFirst(sql.type(slugRow)`
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
    VALUES (${dashboard.accountId}, ${dashboard.slug}, ${dashboard.createdAt.toISOString()}::timestamptz)
    ON CONFLICT (account_id) DO UPDATE SET slug = dashboard.slug
    RETURNING slug
  `);

const accountRow = z.strictObject({ accountId: z.uuid(), name: z.string() });

export const findDashboardAccount = (
  db: CommonQueryMethods,
  slug: string,
): Promise<z.output<typeof accountRow> | null> =>
  db.maybeOne(sql.type(accountRow)`
    SELECT account.id AS "accountId", account.name
    FROM dashboard
    JOIN account ON account.id = dashboard.account_id
    WHERE dashboard.slug = ${slug}
  `);
