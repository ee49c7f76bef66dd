import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../../db/sql.ts";
import type { OrderStage } from "./order.rules.ts";

/* Which planting orders have a workflow, or need one. */

const idRow = z.strictObject({ id: z.int() });

/**
 * Lists the orders whose workflow was never started, and then unfinished ones whose workflow must be lost.
 * @param lostSince a workflow that was started or has polled since then is not lost
 */
export const listPlantingOrdersToStart = (
  db: CommonQueryMethods,
  lostSince: Date,
  limit: number,
): Promise<readonly number[]> =>
  db.anyFirst(sql.type(idRow)`
    SELECT id
    FROM planting_order
    WHERE finished_at IS NULL AND polled_at < ${timestamp(lostSince)}
    ORDER BY polled_at, id
    LIMIT ${limit}
  `);

export const markPlantingOrdersStarted = async (
  db: CommonQueryMethods,
  ids: readonly number[],
  startedAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET polled_at = ${timestamp(startedAt)}
    WHERE id = ANY(${sql.array(ids, "int4")})
  `);
};

const isFinishedRow = z.strictObject({ isFinished: z.boolean() });

/**
 * Records a poll of an order.
 * @param finalStages the stages at which polls return nothing more
 * @returns whether the order is finished
 */
export const markPlantingOrderPolled = (
  db: CommonQueryMethods,
  id: number,
  polledAt: Date,
  finalStages: readonly OrderStage[],
): Promise<boolean> =>
  db.oneFirst(sql.type(isFinishedRow)`
    UPDATE planting_order
    SET
      polled_at = ${timestamp(polledAt)},
      finished_at = CASE
        WHEN stage = ANY(${sql.array(finalStages, "text")}) THEN coalesce(finished_at, ${timestamp(polledAt)})
        ELSE finished_at
      END
    WHERE id = ${id}
    RETURNING finished_at IS NOT NULL AS "isFinished"
  `);

/**
 * Lets a finished order be polled again, unless it was imported. Its workflow has ended, so the order counts as one whose
 * workflow was never started: otherwise it would first have to miss polls.
 */
export const reopenPlantingOrder = async (
  transaction: DatabaseTransactionConnection,
  id: number,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE planting_order
    SET finished_at = NULL, polled_at = '-infinity'
    WHERE id = ${id} AND finished_at IS NOT NULL AND imported_from IS NULL
  `);
};
