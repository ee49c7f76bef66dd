import type { CommonQueryMethods, DatabasePool, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { FeedPosition } from "../../domain/events/events.ts";
import type { WebhookMessage } from "../../domain/events/webhookPayloads.ts";
import { LEASE_MS } from "../../domain/webhooks/decideDelivery.ts";
import type { AttemptResult, DeliveryDecision } from "../../domain/webhooks/decideDelivery.ts";
import { isLeaseFree } from "../leases.ts";
import type { Lease } from "../leases.ts";
import { sql, timestamp } from "../sql.ts";
import { signingSecrets } from "./secrets.ts";

/** The condition of an endpoint that receives deliveries. */
const isEnabled = sql.fragment`
  webhook_endpoint.disabled_at IS NULL AND webhook_endpoint.deleted_at IS NULL
`;

/**
 * Defines the query `waiting`: the endpoints that have pending deliveries, in the order of their ids. It steps through the
 * index of these from endpoint to endpoint, so its cost grows neither with the number of all endpoints nor with that of the
 * deliveries.
 */
const waitingEndpoints = (after: string | null = null): FragmentSqlToken => sql.fragment`
  waiting AS (
    (
      SELECT endpoint_id
      FROM webhook_delivery
      WHERE state = 'pending'
        ${after === null ? sql.fragment`` : sql.fragment`AND endpoint_id > ${after}`}
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
  )`;

/**
 * Defines the query `pending_endpoint`: the enabled endpoints that have pending deliveries, in the order of their ids.
 * @param after where it begins; null: with the first one
 */
export const pendingEndpoints = (after: string | null = null): FragmentSqlToken => sql.fragment`
  ${waitingEndpoints(after)},
  pending_endpoint AS (
    SELECT webhook_endpoint.id, webhook_endpoint.url, webhook_endpoint.failing_since
    FROM waiting
    CROSS JOIN LATERAL (
      SELECT id, url, failing_since
      FROM webhook_endpoint
      WHERE id = waiting.endpoint_id AND ${isEnabled}
      OFFSET 0
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

const dueRow = z.strictObject({ id: z.uuid(), isFailing: z.boolean() });

/** An endpoint with due deliveries. */
export type DueEndpoint = Readonly<z.output<typeof dueRow>>;

/**
 * Lists endpoints that have due deliveries, in the order of their ids.
 * @param after the last endpoint of the page before; null for the first page
 */
export const listDueEndpoints = (
  db: CommonQueryMethods,
  {
    after,
    now,
    limit,
  }: { readonly after: string | null; readonly now: Date; readonly limit: number },
): Promise<readonly DueEndpoint[]> =>
  db.any(sql.type(dueRow)`
    WITH RECURSIVE ${pendingEndpoints(after)}
    SELECT pending_endpoint.id, pending_endpoint.failing_since IS NOT NULL AS "isFailing"
    FROM pending_endpoint
    CROSS JOIN LATERAL (
      SELECT
      FROM webhook_delivery
      WHERE webhook_delivery.endpoint_id = pending_endpoint.id AND ${isDue(now)}
      ORDER BY webhook_delivery.due_at
      LIMIT 1
    ) AS due
    LIMIT ${limit}
  `);

const claimedRow = z.strictObject({
  endpointId: z.uuid(),
  transactionId: z.string().transform(BigInt),
  id: z.uuid(),
  // Another release may have recorded it.
  type: z.string(),
  occurredAt: z.date(),
  data: z.record(z.string(), z.unknown()),
  attempts: z.int(),
  earlierAttempts: z.int(),
  leasedUntil: z.date(),
  url: z.string(),
  /** Those that sign at the time of the claim, newest first. */
  secrets: z.array(z.string()),
});

/** A delivery that this worker is making an attempt of, until the lease ends. */
export type ClaimedDelivery = Readonly<z.output<typeof claimedRow>> & WebhookMessage;

/** An endpoint, and how many deliveries it can receive. */
export type EndpointPlaces = { readonly endpointId: string; readonly places: number };

/**
 * Leases due deliveries of endpoints, the longest due first. No other worker makes an attempt of them until the lease ends.
 * An endpoint that is disabled or deleted is left out.
 */
export const claimDeliveries = (
  db: CommonQueryMethods,
  endpoints: readonly EndpointPlaces[],
  now: Date,
): Promise<readonly ClaimedDelivery[]> =>
  db.any(sql.type(claimedRow)`
    WITH receiver AS MATERIALIZED (
      SELECT
        webhook_endpoint.id,
        webhook_endpoint.url,
        ARRAY(${signingSecrets(sql.fragment`webhook_endpoint.id`, now)}) AS secrets,
        given.places
      FROM ${sql.unnest(
        endpoints.map(({ endpointId, places }) => [endpointId, places]),
        ["uuid", "int4"],
      )} AS given (endpoint_id, places)
      CROSS JOIN LATERAL (
        SELECT id, url FROM webhook_endpoint WHERE id = given.endpoint_id AND ${isEnabled} OFFSET 0
      ) AS webhook_endpoint
    ),
    claimed AS (
      UPDATE webhook_delivery
      SET leased_until = ${timestamp(deliveryLease(now).until)}
      -- A locked row keeps its ctid. For a join by the key, the planner might read the whole table.
      WHERE webhook_delivery.ctid = ANY(ARRAY(
        SELECT due.ctid
        FROM receiver
        CROSS JOIN LATERAL (
          SELECT webhook_delivery.ctid
          FROM webhook_delivery
          WHERE webhook_delivery.endpoint_id = receiver.id AND ${isDue(now)}
          ORDER BY webhook_delivery.due_at, webhook_delivery.transaction_id, webhook_delivery.event_id
          LIMIT receiver.places
          FOR NO KEY UPDATE SKIP LOCKED
        ) AS due
      ))
      RETURNING webhook_delivery.*
    )
    SELECT
      claimed.endpoint_id AS "endpointId",
      claimed.transaction_id::text AS "transactionId",
      claimed.event_id AS id,
      claimed.type,
      claimed.occurred_at AS "occurredAt",
      claimed.data,
      claimed.attempts,
      claimed.earlier_attempts AS "earlierAttempts",
      claimed.leased_until AS "leasedUntil",
      receiver.url,
      receiver.secrets
    FROM claimed
    JOIN receiver ON receiver.id = claimed.endpoint_id
    ORDER BY claimed.due_at, claimed.transaction_id, claimed.event_id
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

/** An attempt that has ended, and what follows it. */
export type EndedAttempt = {
  readonly delivery: Pick<ClaimedDelivery, "endpointId" | "id" | "leasedUntil">;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly durationMs: number;
  readonly result: AttemptResult;
  readonly decision: DeliveryDecision;
};

/**
 * Records attempts and what follows them. A failure is not recorded if the lease has ended and another worker has made an
 * attempt; a success always is, because the receiver has the event.
 */
export const recordAttempts = async (
  db: CommonQueryMethods,
  attempts: readonly EndedAttempt[],
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH ended AS (
      SELECT *
      FROM ${sql.unnest(
        attempts.map(({ delivery, startedAt, durationMs, result, decision }) => [
          delivery.endpointId,
          delivery.id,
          delivery.leasedUntil.toISOString(),
          startedAt.toISOString(),
          durationMs,
          result.status,
          result.error,
          result.response,
          decision.state,
          decision.dueAt?.toISOString() ?? null,
        ]),
        [
          "uuid",
          "uuid",
          "timestamptz",
          "timestamptz",
          "int4",
          "int2",
          "text",
          "text",
          "text",
          "timestamptz",
        ],
      )} AS given (
        endpoint_id, event_id, leased_until, started_at, duration_ms, status, error, response, state, due_at
      )
    ),
    -- In one order: another worker may record its attempts of the same deliveries.
    locked AS (
      SELECT webhook_delivery.endpoint_id, webhook_delivery.event_id
      FROM webhook_delivery
      JOIN ended USING (endpoint_id, event_id)
      ORDER BY webhook_delivery.endpoint_id, webhook_delivery.event_id
      FOR NO KEY UPDATE OF webhook_delivery
    ),
    updated AS (
      UPDATE webhook_delivery
      SET
        state = ended.state,
        due_at = ended.due_at,
        leased_until = NULL,
        attempts = webhook_delivery.attempts + 1
      FROM locked
      JOIN ended USING (endpoint_id, event_id)
      WHERE webhook_delivery.endpoint_id = ended.endpoint_id
        AND webhook_delivery.event_id = ended.event_id
        AND (webhook_delivery.leased_until = ended.leased_until OR ended.state = 'delivered')
        -- A record that seemed to fail is repeated.
        AND NOT EXISTS (
          SELECT
          FROM webhook_attempt
          WHERE webhook_attempt.endpoint_id = ended.endpoint_id
            AND webhook_attempt.event_id = ended.event_id
            AND webhook_attempt.started_at = ended.started_at
          OFFSET 0
        )
      RETURNING
        webhook_delivery.endpoint_id,
        webhook_delivery.event_id,
        webhook_delivery.attempts AS number,
        ended.started_at,
        ended.duration_ms,
        ended.status,
        ended.error,
        ended.response
    )
    INSERT INTO webhook_attempt (endpoint_id, event_id, number, started_at, duration_ms, status, error, response)
    SELECT endpoint_id, event_id, number, started_at, duration_ms, status, error, response
    FROM updated
  `);
};

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
