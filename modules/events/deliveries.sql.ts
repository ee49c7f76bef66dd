import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { FeedPosition } from "./events.rules.ts";
import type { WebhookMessage } from "./webhooks.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { waitingEndpoints } from "./pendingEndpoints.sql.ts";

/** So that the transaction is short: attempts of an endpoint wait for its row while it is disabled. */
const MAXIMUM_ENDED = 1000;

/**
 * Ends pending deliveries of disabled endpoints, those that are due first. They can be recovered. A repeated call ends the
 * next ones, and those that were locked. An endpoint is not enabled meanwhile.
 * @param endpointId ends those of one endpoint; null: of all endpoints together
 */
export const failPendingDeliveries = async (
  db: CommonQueryMethods,
  endpointId: string | null,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH RECURSIVE ${
      endpointId === null
        ? waitingEndpoints()
        : sql.fragment`waiting AS (SELECT ${endpointId}::uuid AS endpoint_id)`
    }
    UPDATE webhook_delivery
    SET state = 'failed', due_at = NULL, leased_until = NULL
    -- As in a claim.
    WHERE webhook_delivery.ctid = ANY(ARRAY(
      SELECT pending.ctid
      FROM waiting
      CROSS JOIN LATERAL (
        SELECT id
        FROM webhook_endpoint
        WHERE id = waiting.endpoint_id AND disabled_at IS NOT NULL AND deleted_at IS NULL
        FOR SHARE SKIP LOCKED
      ) AS disabled
      CROSS JOIN LATERAL (
        SELECT webhook_delivery.ctid
        FROM webhook_delivery
        WHERE webhook_delivery.endpoint_id = disabled.id AND webhook_delivery.state = 'pending'
        ORDER BY webhook_delivery.due_at, webhook_delivery.transaction_id, webhook_delivery.event_id
        LIMIT ${MAXIMUM_ENDED}
        FOR NO KEY UPDATE SKIP LOCKED
      ) AS pending
      LIMIT ${MAXIMUM_ENDED}
    ))
  `);
};

const positionRow = z.strictObject({ transactionId: z.string().transform(BigInt), id: z.uuid() });

/** Inserts a delivery that is for one endpoint only. */
export const insertDelivery = (
  db: CommonQueryMethods,
  {
    endpointId,
    id,
    type,
    data,
  }: { readonly endpointId: string } & Pick<WebhookMessage, "id" | "type" | "data">,
  now: Date,
): Promise<FeedPosition> => {
  const time = timestamp(now);
  return db.one(sql.type(positionRow)`
    INSERT INTO webhook_delivery (endpoint_id, event_id, type, occurred_at, data, created_at, due_at)
    VALUES (${endpointId}, ${id}, ${type}, ${time}, ${JSON.stringify(data)}::json, ${time}, ${time})
    RETURNING transaction_id::text AS "transactionId", event_id AS id
  `);
};

const lastRow = z.strictObject({ deleted: safeInteger, endpointId: z.uuid(), createdAt: z.date() });

/** The last delivery that a batch deleted, in the order of endpoints and times. */
export type DeliveryPlace = Pick<z.output<typeof lastRow>, "endpointId" | "createdAt">;

/**
 * Deletes deliveries that were created before a time, and those of deleted endpoints, with their attempts: endpoint by
 * endpoint, oldest first.
 * @param from where an earlier batch ended; null for the first
 * @returns how many were deleted, and the last one
 */
export const deleteDeliveriesBefore = async (
  transaction: DatabaseTransactionConnection,
  { from, time }: { readonly from: DeliveryPlace | null; readonly time: Date },
  limit: number,
): Promise<{ readonly deleted: number; readonly last: DeliveryPlace | null }> => {
  // The statistics may not know a busy endpoint. A bitmap scan would read and sort all its old deliveries in each batch.
  await transaction.query(sql.typeAlias("void")`
    SELECT FROM set_config('enable_bitmapscan', 'off', true)
  `);
  const last = await transaction.maybeOne(sql.type(lastRow)`
    WITH deleted AS (
      DELETE FROM webhook_delivery
      WHERE ctid = ANY(ARRAY(
        SELECT old.ctid
        FROM webhook_endpoint
        CROSS JOIN LATERAL (
          SELECT candidate.ctid, candidate.created_at
          FROM webhook_delivery AS candidate
          WHERE candidate.endpoint_id = webhook_endpoint.id
            AND candidate.created_at >= CASE
              WHEN webhook_endpoint.id = ${from?.endpointId ?? null}
                THEN ${timestamp(from?.createdAt ?? null)}
              ELSE '-infinity'
            END
            AND candidate.created_at <= CASE
              WHEN webhook_endpoint.deleted_at IS NULL THEN ${timestamp(time)} ELSE 'infinity'
            END
          ORDER BY candidate.created_at
          LIMIT ${limit}
        ) AS old
        ${from === null ? sql.fragment`` : sql.fragment`WHERE webhook_endpoint.id >= ${from.endpointId}`}
        -- Otherwise the limit could leave older deliveries of the last endpoint, which is then passed.
        ORDER BY webhook_endpoint.id, old.created_at
        LIMIT ${limit}
      ))
      RETURNING endpoint_id, created_at
    )
    SELECT count(*) OVER () AS deleted, endpoint_id AS "endpointId", created_at AS "createdAt"
    FROM deleted
    ORDER BY endpoint_id DESC, created_at DESC
    LIMIT 1
  `);
  return { deleted: last?.deleted ?? 0, last };
};
