import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { PlantingOrder } from "./orders.sql.ts";
import { jsonRows } from "../../db/jsonRows.ts";
import { safeInteger, sql } from "../../db/sql.ts";

/** Locks all claims of a partner until the transaction ends: what is left of a record depends on all orders. */
export const lockClaims = (transaction: DatabaseTransactionConnection, partner: string) =>
  transaction.query(sql.typeAlias("void")`
    SELECT FROM pg_advisory_xact_lock(hashtext('planting_claim'), hashtext(${partner}))
  `);

const treesRow = z.strictObject({ reference: z.string(), trees: safeInteger });

/** Trees of a partner's planting record, which the partner identifies by its reference. */
export type RecordedTrees = Readonly<z.output<typeof treesRow>>;

/**
 * Credits an order with trees of its partner's records that no other order has. An order that has all its trees keeps them
 * while their records exist, since a concurrent poll may be about to report exactly these. Any other order is credited again,
 * because partners correct, merge and delete records. The caller must hold the lock of the partner's claims.
 * @param records are used up in their order
 * @returns all that the order is credited with
 */
export const creditOrder = (
  transaction: DatabaseTransactionConnection,
  { id, partner, treeCount }: Pick<PlantingOrder, "id" | "partner" | "treeCount">,
  records: readonly RecordedTrees[],
) =>
  transaction.any(sql.type(treesRow)`
    WITH record AS MATERIALIZED (${jsonRows({ reference: "text", trees: "int8" }, records)}),
    kept AS MATERIALIZED (
      SELECT record.reference, claim.trees, record.place
      FROM planting_claim AS claim
      LEFT JOIN record ON record.reference = claim.reference
      WHERE claim.order_id = ${id}
    ),
    free AS (
      SELECT
        reference,
        place,
        greatest(
          0,
          trees - (
            SELECT coalesce(sum(claim.trees), 0)
            FROM planting_claim AS claim
            WHERE claim.partner = ${partner} AND claim.reference = record.reference AND claim.order_id <> ${id}
          )
        ) AS trees
      FROM record
    ),
    part AS (
      SELECT reference, least(trees, ${treeCount} - sum(trees) OVER (ORDER BY place) + trees)::bigint AS trees, place
      FROM free
    ),
    credited AS MATERIALIZED (
      SELECT reference, trees, place
      FROM (SELECT sum(trees) >= ${treeCount} AND bool_and(reference IS NOT NULL) AS is_complete FROM kept) AS kept_all
      CROSS JOIN LATERAL (
        SELECT * FROM kept WHERE is_complete
        UNION ALL
        SELECT * FROM part WHERE trees > 0 AND is_complete IS NOT true
      ) AS credit
    ),
    given_up AS (
      DELETE FROM planting_claim
      WHERE order_id = ${id} AND reference NOT IN (SELECT reference FROM credited)
    ),
    claimed AS (
      INSERT INTO planting_claim (partner, reference, order_id, trees)
      SELECT ${partner}, reference, ${id}, trees
      FROM credited
      ON CONFLICT (partner, reference, order_id) DO UPDATE SET trees = excluded.trees
    )
    SELECT reference, trees FROM credited ORDER BY place
  `);
