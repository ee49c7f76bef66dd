import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const claimRow = z.strictObject({
  reference: z.string(),
  orderId: z.int(),
  trees: z.bigint().transform(Number),
});

/** Trees of a partner's record that are an order's. */
export type PlantingClaim = { readonly reference: string; readonly trees: number };

const treesIn = (claims: readonly PlantingClaim[]): number =>
  claims.reduce((sum, { trees }) => sum + trees, 0);

/**
 * Credits an order with planted trees that no other order has, until it has as many as it needs. No tree is ever credited
 * twice, whichever orders ask at the same time. An order that is full keeps what it has while its records last; else it
 * is credited anew with what the partner has on record now, since records are corrected, merged and deleted.
 * @param records the partner's records in the order in which they are to be used up
 * @returns all that the order has now
 */
export const claimPlantings = (
  db: DatabasePool,
  partner: string,
  order: { readonly id: number; readonly treeCount: number },
  records: readonly PlantingClaim[],
): Promise<readonly PlantingClaim[]> =>
  db.transaction(async (transaction) => {
    // One at a time per partner: what is left of a record depends on all orders.
    await transaction.query(sql.typeAlias("void")`
      SELECT
      FROM pg_advisory_xact_lock(hashtext('planting_claim'), hashtext(${partner}))
    `);
    const claims = await transaction.any(sql.type(claimRow)`
      SELECT reference, order_id AS "orderId", trees
      FROM planting_claim
      WHERE partner = ${partner}
        AND (
          order_id = ${order.id}
          OR reference = ANY(${sql.array(
            records.map(({ reference }) => reference),
            "text",
          )})
        )
    `);
    const own = claims.filter(({ orderId }) => orderId === order.id);
    const lasts = ({ reference }: PlantingClaim): boolean =>
      records.some((record) => record.reference === reference);
    if (treesIn(own) >= order.treeCount && own.every(lasts)) {
      // Another look may be about to report just these.
      return own.map(({ reference, trees }) => ({ reference, trees }));
    }
    await transaction.query(sql.typeAlias("void")`
      DELETE FROM planting_claim
      WHERE partner = ${partner} AND order_id = ${order.id}
    `);
    const credited: PlantingClaim[] = [];
    for (const { reference, trees: planted } of records) {
      const taken = claims.filter(
        (claim) => claim.reference === reference && claim.orderId !== order.id,
      );
      const trees = Math.min(order.treeCount - treesIn(credited), planted - treesIn(taken));
      if (trees > 0) {
        await transaction.query(sql.typeAlias("void")`
          INSERT INTO planting_claim (partner, reference, order_id, trees)
          VALUES (${partner}, ${reference}, ${order.id}, ${trees})
        `);
        credited.push({ reference, trees });
      }
    }
    return credited;
  });
