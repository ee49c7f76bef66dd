import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PLANTED_KIND } from "../records/owner.rules.ts";
import type { Mode } from "../records/owner.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { isSimulated } from "./order.rules.ts";
import type { PlantingOrder } from "./orders.sql.ts";
import { mediaOfFact } from "./sites.sql.ts";

// This file reads the totals of registrations itself, because the summary is one statement.

const summary = z.strictObject({
  registeredTrees: z.int(),
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

/** What all accounts have registered in one mode, and which of it was planted, by impact factor. */
export type Summary = Readonly<z.output<typeof summary>>;

/** The trees of one summary: simulated and real ones are never in the same, nor those of both modes. */
export type SummarizedTrees = { readonly mode: Mode; readonly isSimulated: boolean };

/** Locks the summaries until the transaction ends, so that one of earlier facts is not stored afterwards. */
export const lockSummary = (transaction: DatabaseTransactionConnection) =>
  transaction.query(sql.typeAlias("void")`
    SELECT FROM pg_advisory_xact_lock(hashtext('evidence_summary'))
  `);

const summaryRow = summary.extend({ registeredTrees: safeInteger });

const contentRow = z.strictObject({ content: summary });

export const findSummary = (
  db: CommonQueryMethods,
  { mode, isSimulated: simulated }: SummarizedTrees,
  now: Date,
) =>
  db.maybeOneFirst(sql.type(contentRow)`
    SELECT content
    FROM evidence_summary
    WHERE mode = ${mode} AND is_simulated = ${simulated} AND expires_at > ${timestamp(now)}
  `);

export const storeSummary = (
  transaction: DatabaseTransactionConnection,
  { mode, isSimulated: simulated }: SummarizedTrees,
  content: Summary,
  expiresAt: Date,
) =>
  transaction.query(sql.typeAlias("void")`
    INSERT INTO evidence_summary (mode, is_simulated, content, expires_at)
    VALUES (${mode}, ${simulated}, ${JSON.stringify(content)}::jsonb, ${timestamp(expiresAt)})
    ON CONFLICT (mode, is_simulated) DO UPDATE SET content = excluded.content, expires_at = excluded.expires_at
  `);

/** Deletes the summary that an order changes, or all. To avoid deadlocks, lock planting orders before. */
export const deleteSummaries = async (
  transaction: DatabaseTransactionConnection,
  order: Pick<PlantingOrder, "mode" | "partner"> | null,
) => {
  await lockSummary(transaction);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM evidence_summary
    WHERE ${
      order === null
        ? sql.fragment`true`
        : sql.fragment`mode = ${order.mode} AND is_simulated = ${isSimulated(order.partner)}`
    }
  `);
};

/** The latest ones of each site; a region may have several sites. */
const MEDIA_PER_SITE = 6;

/**
 * Reads the summary: the registered trees without refunded ones, the planted trees by impact factor, and their regions with
 * the latest media of each site. A sum that exceeds a safe integer is capped at the largest one. It is one statement, so that
 * its parts agree. A transaction with one snapshot would not do: the snapshot would be older than the lock of the summary.
 */
export const readSummary = (
  db: CommonQueryMethods,
  { mode, isSimulated: simulated }: SummarizedTrees,
) =>
  db.one(sql.type(summaryRow)`
    WITH
      -- The table has rows of every account, so it is read once.
      tally AS MATERIALIZED (
        SELECT site_id, factor_id, sum(planted) AS planted
        FROM planting_tally
        JOIN planting_site ON planting_site.id = planting_tally.site_id
        WHERE mode = ${mode} AND (planting_site.partner = 'simulated') = ${simulated}
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
                'id', latest.id,
                'type', latest.type,
                'url', latest.url,
                'date', to_char(latest.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')
              )
              ORDER BY latest.fact_id DESC, latest.place DESC
            ) FILTER (WHERE latest.id IS NOT NULL),
            '[]'
          ) AS media
        FROM planting_site
        LEFT JOIN LATERAL (
          SELECT medium.*, planting_fact.id AS fact_id, occurred_at
          FROM planting_fact
          JOIN planting_order ON planting_order.id = order_id AND planting_order.mode = ${mode}
          CROSS JOIN ${mediaOfFact} AS medium
          WHERE planting_fact.site_id = planting_site.id AND state = 'accepted' AND planting_fact.stage IN ('planted', 'planted_and_verified')
          ORDER BY planting_fact.id DESC, place DESC
          LIMIT ${MEDIA_PER_SITE}
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
