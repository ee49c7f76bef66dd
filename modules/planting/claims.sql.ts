import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { RecordedTrees } from "./creditOrder.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";

const treesRow = z.strictObject({ reference: z.string(), trees: safeInteger });

/** Locks all claims of a partner until the transaction ends: what is left of a record depends on all orders. */
export const lockClaims = async (
  transaction: DatabaseTransactionConnection,
  partner: string,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    SELECT
    FROM pg_advisory_xact_lock(hashtext('planting_claim'), hashtext(${partner}))
  `);
};

/** Lists an order's claims. */
export const listClaims = (
  db: CommonQueryMethods,
  orderId: number,
): Promise<readonly RecordedTrees[]> =>
  db.any(sql.type(treesRow)`
    SELECT reference, trees
    FROM planting_claim
    WHERE order_id = ${orderId}
    ORDER BY reference
  `);

/** Lists how many trees of records all orders have together. Records that no order has trees of are left out. */
export const listCreditedTrees = (
  db: CommonQueryMethods,
  partner: string,
  references: readonly string[],
): Promise<readonly RecordedTrees[]> =>
  db.any(sql.type(treesRow)`
    SELECT reference, sum(trees)::bigint AS trees
    FROM planting_claim
    WHERE partner = ${partner} AND reference = ANY(${sql.array(references, "text")})
    GROUP BY reference
  `);

/** Replaces an order's claims. The caller must hold the lock of the partner's claims. */
export const replaceClaims = async (
  transaction: DatabaseTransactionConnection,
  partner: string,
  orderId: number,
  claims: readonly RecordedTrees[],
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM planting_claim WHERE partner = ${partner} AND order_id = ${orderId}
  `);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO planting_claim (partner, reference, order_id, trees)
    SELECT ${partner}, reference, ${orderId}, trees
    FROM jsonb_to_recordset(${JSON.stringify(claims)}::jsonb) AS claim (reference text, trees bigint)
  `);
};
