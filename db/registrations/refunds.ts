import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

/** One call that refunds units of a registration. */
type Refund = {
  readonly id: string;
  readonly registrationId: string;
  readonly count: number;
  readonly reason: string | null;
  readonly createdAt: Date;
};

export const insertRefund = async (
  transaction: DatabaseTransactionConnection,
  refund: Refund,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO refund (id, registration_id, count, reason, created_at)
    VALUES (
      ${refund.id}, ${refund.registrationId}, ${refund.count}, ${refund.reason}, ${refund.createdAt.toISOString()}
    )
  `);
};

/** Lists refunds whose workflow has not been started yet, oldest first. */
export const listWaitingRefunds = (
  db: CommonQueryMethods,
  limit: number,
): Promise<readonly { readonly id: string; readonly registrationId: string }[]> =>
  db.any(sql.type(z.strictObject({ id: z.uuid(), registrationId: z.uuid() }))`
    SELECT id, registration_id AS "registrationId"
    FROM refund
    WHERE dispatched_at IS NULL
    ORDER BY created_at
    LIMIT ${limit}
  `);

export const markRefundDispatched = async (
  db: CommonQueryMethods,
  id: string,
  dispatchedAt: Date,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE refund
    SET dispatched_at = ${dispatchedAt.toISOString()}
    WHERE id = ${id}
  `);
};
