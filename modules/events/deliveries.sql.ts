import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { FeedPosition } from "./events.rules.ts";
import type { WebhookMessage } from "./webhooks.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";
import { waitingEndpoints } from "./pendingEndpoints.sql.ts";
import { DELIVERY_STATES } from "./decideDelivery.rules.ts";
import type { DeliveryState } from "./decideDelivery.rules.ts";

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

const deliveryRow = z.strictObject({
  transactionId: z.string().transform(BigInt),
  /** The second part of the event's id. */
  id: z.uuid(),
  // Another release may have recorded it.
  type: z.string(),
  occurredAt: z.date(),
  state: z.enum(DELIVERY_STATES),
  attempts: z.int(),
  createdAt: z.date(),
  dueAt: z.date().nullable(),
});

/** A delivery as its owner sees it. */
export type Delivery = Readonly<z.output<typeof deliveryRow>>;

const columns = sql.fragment`
  webhook_delivery.transaction_id::text AS "transactionId",
  webhook_delivery.event_id AS id,
  webhook_delivery.type,
  webhook_delivery.occurred_at AS "occurredAt",
  webhook_delivery.state,
  webhook_delivery.attempts,
  webhook_delivery.created_at AS "createdAt",
  webhook_delivery.due_at AS "dueAt"
`;

type Page = {
  /** The last delivery of the previous page. */
  readonly after: Pick<Delivery, "createdAt" | "id"> | null;
  readonly limit: number;
};

const page = (
  endpointId: FragmentSqlToken,
  condition: FragmentSqlToken,
  { after, limit }: Page,
): FragmentSqlToken => sql.fragment`
  SELECT *
  FROM webhook_delivery
  WHERE endpoint_id = ${endpointId}
    AND ${condition}
    ${
      after === null
        ? sql.fragment``
        : sql.fragment`AND (created_at, event_id) < (${timestamp(after.createdAt)}, ${after.id}::uuid)`
    }
  ORDER BY created_at DESC, event_id DESC
  LIMIT ${limit}
`;

/** Returns the query of deliveries whose last attempt failed, newest first. Each part of it is read in its own index. */
export const failedDeliveries = (endpointId: FragmentSqlToken, given: Page): FragmentSqlToken =>
  sql.fragment`
    SELECT *
    FROM (
      (${page(endpointId, sql.fragment`state = 'failed'`, given)})
      UNION ALL
      (${page(endpointId, sql.fragment`state = 'pending' AND attempts > earlier_attempts`, given)})
    ) AS webhook_delivery
    ORDER BY created_at DESC, event_id DESC
    LIMIT ${given.limit}
  `;

/**
 * Lists deliveries of an endpoint, newest first.
 * @param filter.state null for all; `failed` finds also those that are pending after a failed attempt
 */
export const listDeliveries = (
  db: CommonQueryMethods,
  endpointId: string,
  { state, ...given }: Page & { readonly state: DeliveryState | null },
): Promise<readonly Delivery[]> => {
  const id = sql.fragment`${endpointId}`;
  const condition = state === null ? sql.fragment`true` : sql.fragment`state = ${state}`;
  return db.any(sql.type(deliveryRow)`
    SELECT ${columns}
    FROM (${state === "failed" ? failedDeliveries(id, given) : page(id, condition, given)}) AS webhook_delivery
    ORDER BY webhook_delivery.created_at DESC, webhook_delivery.event_id DESC
  `);
};

export const findDelivery = (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
): Promise<Delivery | null> =>
  db.maybeOne(sql.type(deliveryRow)`
    SELECT ${columns}
    FROM webhook_delivery
    WHERE webhook_delivery.endpoint_id = ${endpointId} AND webhook_delivery.event_id = ${id}
  `);

const attemptRow = z.strictObject({
  number: z.int(),
  startedAt: z.date(),
  durationMs: z.int(),
  status: z.int().nullable(),
  error: z.string().nullable(),
  response: z.string().nullable(),
});
export type DeliveryAttempt = Readonly<z.output<typeof attemptRow>>;

/** Lists the attempts of a delivery that are kept, oldest first. */
export const listAttempts = (
  db: CommonQueryMethods,
  endpointId: string,
  id: string,
): Promise<readonly DeliveryAttempt[]> =>
  db.any(sql.type(attemptRow)`
    SELECT
      number,
      started_at AS "startedAt",
      duration_ms AS "durationMs",
      status,
      error,
      response
    FROM webhook_attempt
    WHERE endpoint_id = ${endpointId} AND event_id = ${id}
    ORDER BY number
  `);
