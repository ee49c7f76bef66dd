import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Claim, RecordedTrees } from "../../domain/planting/creditOrder.ts";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";

const claimRow = z.strictObject({ reference: z.string(), orderId: z.int(), trees: safeInteger });

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

/** Lists an order's claims, and those of other orders on the given records. */
export const listClaims = (
  db: CommonQueryMethods,
  partner: string,
  orderId: number,
  references: readonly string[],
): Promise<readonly Claim[]> =>
  db.any(sql.type(claimRow)`
    SELECT reference, order_id AS "orderId", trees
    FROM planting_claim
    WHERE partner = ${partner} AND (order_id = ${orderId} OR reference = ANY(${sql.array(references, "text")}))
    ORDER BY reference, order_id
  `);

/** The caller must hold the lock of the partner's claims. */
export const changeClaims = async (
  transaction: DatabaseTransactionConnection,
  partner: string,
  orderId: number,
  {
    removed,
    changed,
  }: { readonly removed: readonly string[]; readonly changed: readonly RecordedTrees[] },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM planting_claim
    WHERE partner = ${partner} AND order_id = ${orderId} AND reference = ANY(${sql.array(removed, "text")})
  `);
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO planting_claim (partner, reference, order_id, trees)
    SELECT ${partner}, reference, ${orderId}, trees
    FROM jsonb_to_recordset(${JSON.stringify(changed)}::jsonb) AS claim (reference text, trees bigint)
    ON CONFLICT (partner, reference, order_id) DO UPDATE SET trees = excluded.trees
  `);
};
