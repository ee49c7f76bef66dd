import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner } from "../../domain/registrations/registrations.ts";
import { heldDispatcherLease } from "../billing/sending/dispatcherLease.ts";
import type { DispatcherLease } from "../billing/sending/dispatcherLease.ts";
import { safeInteger } from "../columns.ts";
import { nothing, sql, timestamp } from "../sql.ts";

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
  await transaction.query(sql.prepared("insert_refund", nothing)`
    INSERT INTO refund (id, registration_id, count, reason, created_at)
    VALUES (
      ${refund.id}, ${refund.registrationId}, ${refund.count}, ${refund.reason}, ${timestamp(refund.createdAt)}
    )
  `);
};

/**
 * Assigns an idempotency key to a refund. Waits for a concurrent call with the key.
 * @returns false, with nothing inserted, if the key already belongs to a refund
 */
export const insertRefundKey = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, kind }: Owner,
  idempotencyKey: string,
  refundId: string,
): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.prepared("insert_refund_key", nothing)`
    INSERT INTO refund_key (account_id, mode, kind, idempotency_key, refund_id)
    VALUES (${accountId}, ${mode}, ${kind}, ${idempotencyKey}, ${refundId})
    ON CONFLICT (account_id, mode, kind, idempotency_key) DO NOTHING
  `);
  return rowCount === 1;
};

const keyedRefundRow = z.strictObject({ registrationId: z.uuid(), count: safeInteger });

/** Returns the refund that an idempotency key belongs to, or null. */
export const findRefundByKey = (
  db: CommonQueryMethods,
  { accountId, mode, kind }: Owner,
  idempotencyKey: string,
): Promise<Readonly<z.output<typeof keyedRefundRow>> | null> =>
  db.maybeOne(sql.prepared("find_refund_by_key", keyedRefundRow)`
    SELECT refund.registration_id AS "registrationId", refund.count
    FROM refund_key
    JOIN refund ON refund.id = refund_key.refund_id
    WHERE refund_key.account_id = ${accountId}
      AND refund_key.mode = ${mode}
      AND refund_key.kind = ${kind}
      AND refund_key.idempotency_key = ${idempotencyKey}
  `);

const waitingRefundRow = z.strictObject({ id: z.uuid(), registrationId: z.uuid() });

/** Lists refunds whose workflow has not been started yet, oldest first. */
export const listWaitingRefunds = (
  db: CommonQueryMethods,
  limit: number,
): Promise<readonly { readonly id: string; readonly registrationId: string }[]> =>
  db.any(sql.type(waitingRefundRow)`
    SELECT id, registration_id AS "registrationId"
    FROM refund
    WHERE dispatched_at IS NULL
    ORDER BY created_at
    LIMIT ${limit}
  `);

/**
 * Records that a refund's workflow was started. A process that has lost the lease changes nothing: an operator may have
 * had the refund dispatched again in the meantime.
 */
export const markRefundDispatched = async (
  db: CommonQueryMethods,
  id: string,
  dispatchedAt: Date,
  lease: DispatcherLease,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE refund
    SET dispatched_at = ${timestamp(dispatchedAt)}
    FROM ${heldDispatcherLease(lease)} AS held
    WHERE id = ${id}
  `);
};
