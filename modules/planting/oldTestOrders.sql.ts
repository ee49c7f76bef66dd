import type { DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { deletePlantingOrders } from "./orders.sql.ts";

const idRow = z.strictObject({ id: z.int() });

/**
 * Deletes finished orders of test mode without registrations, with everything that was reported about them.
 * @returns the number of deleted orders
 */
export const deleteEmptyTestOrders = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  limit: number,
): Promise<number> => {
  const ids = await transaction.anyFirst(sql.type(idRow)`
    SELECT id
    FROM planting_order
    WHERE account_id = ${accountId}
      AND mode = 'test'
      AND finished_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM registration WHERE registration.planting_order_id = planting_order.id)
    ORDER BY id
    LIMIT ${limit}
    FOR UPDATE SKIP LOCKED
  `);
  await deletePlantingOrders(transaction, ids);
  return ids.length;
};
