import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";

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
): Promise<readonly VerifiedTrees[]> =>
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
