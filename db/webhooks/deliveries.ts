import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import type { FeedPosition } from "../../domain/events/events.ts";
import { DELIVERED_TYPES } from "../../domain/events/webhookPayloads.ts";
import type { WebhookMessage } from "../../domain/events/webhookPayloads.ts";
import { LEASE_MS } from "../../domain/webhooks/decideDelivery.ts";
import type { AttemptResult, DeliveryDecision } from "../../domain/webhooks/decideDelivery.ts";
import { isLeaseFree } from "../leases.ts";
import type { Lease } from "../leases.ts";
import { sql, timestamp } from "../sql.ts";

/** The condition of an endpoint that receives deliveries. */
const isEnabled = sql.fragment`
  webhook_endpoint.disabled_at IS NULL AND webhook_endpoint.deleted_at IS NULL
`;

/**
 * Defines the query `pending_endpoint`: the enabled endpoints that have pending deliveries. It steps through the index of these
 * from endpoint to endpoint, so its cost grows neither with the number of all endpoints nor with that of the deliveries.
 */
export const pendingEndpoints = sql.fragment`
  waiting AS (
    (
      SELECT endpoint_id
      FROM webhook_delivery
      WHERE state = 'pending'
      -- With the second column, only the index of pending deliveries is in this order.
      ORDER BY endpoint_id, due_at
      LIMIT 1
    )
    UNION ALL
    SELECT following.endpoint_id
    FROM waiting
    CROSS JOIN LATERAL (
      SELECT endpoint_id
      FROM webhook_delivery
      WHERE state = 'pending' AND endpoint_id > waiting.endpoint_id
      ORDER BY endpoint_id, due_at
      LIMIT 1
    ) AS following
  ),
  pending_endpoint AS (
    SELECT webhook_endpoint.id, webhook_endpoint.url
    FROM waiting
    CROSS JOIN LATERAL (
      SELECT id, url FROM webhook_endpoint WHERE id = waiting.endpoint_id AND ${isEnabled} OFFSET 0
    ) AS webhook_endpoint
  )`;

/** The lease of attempts that begin at a time. */
export const deliveryLease = (now: Date): Lease => ({
  now,
  until: new Date(now.getTime() + LEASE_MS),
});

/** The condition of a delivery whose attempt is due and that no worker is making. */
const isDue = (now: Date) => sql.fragment`
  webhook_delivery.state = 'pending'
  AND webhook_delivery.due_at <= ${timestamp(now)}
  AND ${isLeaseFree(sql.fragment`webhook_delivery.leased_until`, deliveryLease(now))}
`;

const dueRow = z.strictObject({ endpointId: z.uuid(), dueAt: z.date() });

/** An endpoint with its longest due delivery. */
export type DueEndpoint = Readonly<z.output<typeof dueRow>>;

/** Lists the endpoints that have due deliveries, the longest due first. */
export const listDueEndpoints = (
  db: CommonQueryMethods,
  now: Date,
): Promise<readonly DueEndpoint[]> =>
  db.any(sql.type(dueRow)`
    WITH RECURSIVE ${pendingEndpoints}
    SELECT pending_endpoint.id AS "endpointId", due.due_at AS "dueAt"
    FROM pending_endpoint
    CROSS JOIN LATERAL (
      SELECT webhook_delivery.due_at
      FROM webhook_delivery
      WHERE webhook_delivery.endpoint_id = pending_endpoint.id AND ${isDue(now)}
      ORDER BY webhook_delivery.due_at
      LIMIT 1
    ) AS due
    ORDER BY due.due_at
  `);

const nextDueAtRow = z.strictObject({ nextDueAt: z.date().nullable() });

/** Returns when an endpoint's next attempt is due; null if nothing is pending or the endpoint is disabled. */
export const findNextDue = (db: CommonQueryMethods, endpointId: string): Promise<Date | null> =>
  db.oneFirst(sql.type(nextDueAtRow)`
    SELECT min(greatest(webhook_delivery.due_at, webhook_delivery.leased_until)) AS "nextDueAt"
    FROM (
      SELECT webhook_delivery.due_at, webhook_delivery.leased_until
      FROM webhook_delivery
      JOIN webhook_endpoint ON webhook_endpoint.id = webhook_delivery.endpoint_id
      WHERE webhook_delivery.endpoint_id = ${endpointId}
        AND webhook_delivery.state = 'pending'
        AND ${isEnabled}
      ORDER BY webhook_delivery.due_at
      -- Those in progress, and one more.
      LIMIT 32
    ) AS webhook_delivery
  `);

const claimedRow = z.strictObject({
  endpointId: z.uuid(),
  transactionId: z.string().transform(BigInt),
  id: z.uuid(),
  type: z.enum(DELIVERED_TYPES),
  occurredAt: z.date(),
  data: z.record(z.string(), z.unknown()),
  attempts: z.int(),
  earlierAttempts: z.int(),
  leasedUntil: z.date(),
  url: z.string(),
});

/** A delivery that this worker is making an attempt of, until the lease ends. */
export type ClaimedDelivery = Readonly<z.output<typeof claimedRow>> & WebhookMessage;

/** Leases due deliveries of an endpoint, the longest due first. No other worker makes an attempt of them until the lease ends. */
export const claimDeliveries = (
  db: CommonQueryMethods,
  endpointId: string,
  { now, limit }: { readonly now: Date; readonly limit: number },
): Promise<readonly ClaimedDelivery[]> =>
  db.any(sql.type(claimedRow)`
    UPDATE webhook_delivery
    SET leased_until = ${timestamp(deliveryLease(now).until)}
    FROM webhook_endpoint
    WHERE webhook_endpoint.id = webhook_delivery.endpoint_id
      AND ${isEnabled}
      AND (webhook_delivery.endpoint_id, webhook_delivery.event_id) IN (
        SELECT webhook_delivery.endpoint_id, webhook_delivery.event_id
        FROM webhook_delivery
        WHERE webhook_delivery.endpoint_id = ${endpointId} AND ${isDue(now)}
        ORDER BY webhook_delivery.due_at, webhook_delivery.transaction_id, webhook_delivery.event_id
        LIMIT ${limit}
        FOR NO KEY UPDATE SKIP LOCKED
      )
    RETURNING
      webhook_delivery.endpoint_id AS "endpointId",
      webhook_delivery.transaction_id::text AS "transactionId",
      webhook_delivery.event_id AS id,
      webhook_delivery.type,
      webhook_delivery.occurred_at AS "occurredAt",
      webhook_delivery.data,
      webhook_delivery.attempts,
      webhook_delivery.earlier_attempts AS "earlierAttempts",
      webhook_delivery.leased_until AS "leasedUntil",
      webhook_endpoint.url
  `);

/** Gives up a lease without an attempt, so that another worker makes it. */
export const releaseDelivery = async (
  db: CommonQueryMethods,
  { endpointId, id, leasedUntil }: Pick<ClaimedDelivery, "endpointId" | "id" | "leasedUntil">,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery
    SET leased_until = NULL
    WHERE endpoint_id = ${endpointId} AND event_id = ${id} AND leased_until = ${timestamp(leasedUntil)}
  `);
};

/**
 * Records an attempt and what follows it. A failure is not recorded if the lease has ended and another worker has made an
 * attempt; a success always is, because the receiver has the event.
 */
export const recordAttempt = async (
  db: CommonQueryMethods,
  { endpointId, id, leasedUntil }: Pick<ClaimedDelivery, "endpointId" | "id" | "leasedUntil">,
  {
    startedAt,
    durationMs,
    result: { status, error, response },
    decision: { state, dueAt },
  }: {
    readonly startedAt: Date;
    readonly durationMs: number;
    readonly result: AttemptResult;
    readonly decision: DeliveryDecision;
  },
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH updated AS (
      UPDATE webhook_delivery
      SET
        state = ${state},
        due_at = ${timestamp(dueAt)},
        leased_until = NULL,
        attempts = attempts + 1
      WHERE endpoint_id = ${endpointId}
        AND event_id = ${id}
        AND (leased_until = ${timestamp(leasedUntil)} OR ${state === "delivered"})
      RETURNING endpoint_id, event_id, attempts
    )
    INSERT INTO webhook_attempt (endpoint_id, event_id, number, started_at, duration_ms, status, error, response)
    SELECT
      endpoint_id,
      event_id,
      attempts,
      ${timestamp(startedAt)},
      ${durationMs}::integer,
      ${status}::smallint,
      ${error},
      ${response}
    FROM updated
  `);
};

/** Ends all pending deliveries of an endpoint that was disabled. They can be recovered. */
export const failPendingDeliveries = async (
  db: CommonQueryMethods,
  endpointId: string,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery
    SET state = 'failed', due_at = NULL, leased_until = NULL
    WHERE endpoint_id = ${endpointId} AND state = 'pending'
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

/**
 * Deletes deliveries that were created before a time, and those of deleted endpoints, with their attempts.
 * @returns how many were deleted
 */
export const deleteDeliveriesBefore = (
  db: DatabasePool,
  time: Date,
  limit: number,
): Promise<number> =>
  db.transaction(async (transaction) => {
    // A bitmap scan would read what earlier batches have deleted again and again. An index scan marks it as dead.
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM set_config('enable_bitmapscan', 'off', true)
    `);
    const { rowCount } = await transaction.query(sql.typeAlias("void")`
      DELETE FROM webhook_delivery
      WHERE ctid = ANY(ARRAY(
        SELECT old.ctid
        FROM webhook_endpoint
        CROSS JOIN LATERAL (
          SELECT candidate.ctid
          FROM webhook_delivery AS candidate
          WHERE candidate.endpoint_id = webhook_endpoint.id
            AND candidate.created_at <= CASE
              WHEN webhook_endpoint.deleted_at IS NULL THEN ${timestamp(time)} ELSE 'infinity'
            END
          ORDER BY candidate.created_at
          LIMIT ${limit}
        ) AS old
        LIMIT ${limit}
      ))
    `);
    return rowCount;
  });
