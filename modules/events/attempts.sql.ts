import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { LEASE_MS } from "./decideDelivery.rules.ts";
import type { DeliveryDecision, LastAttempt } from "./decideDelivery.rules.ts";
import type { WebhookMessage } from "./webhooks.rules.ts";
import { idRow, sql, timestamp } from "../../db/sql.ts";

const isDue = (now: Date) => sql.fragment`
  webhook_delivery.state = 'pending' AND webhook_delivery.due_at <= ${timestamp(now)}
`;

/** Returns the query of the next endpoint that has pending deliveries and meets a condition. */
const nextWaiting = (condition: FragmentSqlToken) => sql.fragment`
  SELECT endpoint_id
  FROM webhook_delivery
  WHERE state = 'pending' AND ${condition}
  -- With the second column, only the index of pending deliveries is in this order.
  ORDER BY endpoint_id, due_at
  LIMIT 1
`;

/**
 * Lists the ids of enabled endpoints that have due deliveries, in their order. It steps through the index of pending deliveries
 * from endpoint to endpoint, so its cost grows neither with the number of all endpoints nor with that of the deliveries.
 * @param page.after the last endpoint of the page before; null for the first page
 */
export const listDueEndpoints = (
  db: CommonQueryMethods,
  page: { readonly after: string | null; readonly now: Date; readonly limit: number },
) =>
  db.anyFirst(sql.type(idRow)`
    WITH RECURSIVE waiting AS (
      (${nextWaiting(page.after === null ? sql.fragment`true` : sql.fragment`endpoint_id > ${page.after}`)})
      UNION ALL
      SELECT following.endpoint_id
      FROM waiting
      CROSS JOIN LATERAL (${nextWaiting(sql.fragment`endpoint_id > waiting.endpoint_id`)}) AS following
    )
    SELECT endpoint.id
    FROM waiting
    CROSS JOIN LATERAL (
      SELECT id
      FROM webhook_endpoint
      WHERE id = waiting.endpoint_id AND disabled_at IS NULL
      OFFSET 0
    ) AS endpoint
    CROSS JOIN LATERAL (
      SELECT
      FROM webhook_delivery
      WHERE webhook_delivery.endpoint_id = endpoint.id AND ${isDue(page.now)}
      ORDER BY webhook_delivery.due_at
      LIMIT 1
    ) AS due
    LIMIT ${page.limit}
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
  leasedUntil: z.date(),
  url: z.string(),
  /** Those that sign at the time of the claim, newest first. */
  secrets: z.array(z.string()),
});

/** A delivery that this worker is making an attempt of, until its lease ends. */
export type ClaimedDelivery = Readonly<z.output<typeof claimedRow>> & WebhookMessage;

/**
 * Leases due deliveries of endpoints, the longest due first: each is due again when its lease ends, unless its attempt was
 * recorded. An endpoint that is disabled or deleted is left out.
 * @param endpointIds each as often as it can receive a delivery
 */
export const claimDeliveries = (
  db: CommonQueryMethods,
  endpointIds: readonly string[],
  now: Date,
) =>
  db.any(sql.type(claimedRow)`
    WITH receiver AS MATERIALIZED (
      SELECT webhook_endpoint.*, given.places
      FROM (
        SELECT endpoint_id, count(*) AS places
        FROM unnest(${sql.array([...endpointIds], "uuid")}) AS endpoint_id
        GROUP BY endpoint_id
      ) AS given
      CROSS JOIN LATERAL (
        SELECT
          id,
          url,
          CASE WHEN previous_secret_until > ${timestamp(now)} THEN ARRAY[secret, previous_secret] ELSE ARRAY[secret] END
            AS secrets
        FROM webhook_endpoint
        WHERE id = given.endpoint_id AND disabled_at IS NULL
        OFFSET 0
      ) AS webhook_endpoint
    ),
    claimed AS (
      UPDATE webhook_delivery
      SET due_at = ${timestamp(new Date(now.getTime() + LEASE_MS))}
      -- A locked row keeps its ctid. For a join by the key, the planner might read the whole table.
      WHERE webhook_delivery.ctid = ANY(ARRAY(
        SELECT due.ctid
        FROM receiver
        CROSS JOIN LATERAL (
          SELECT webhook_delivery.ctid
          FROM webhook_delivery
          WHERE webhook_delivery.endpoint_id = receiver.id AND ${isDue(now)}
          ORDER BY webhook_delivery.due_at, webhook_delivery.event_id
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
      event.type,
      event.created_at AS "occurredAt",
      event.data,
      claimed.attempts,
      claimed.due_at AS "leasedUntil",
      receiver.url,
      receiver.secrets
    FROM claimed
    JOIN receiver ON receiver.id = claimed.endpoint_id
    CROSS JOIN LATERAL (
      SELECT type, created_at, data FROM event WHERE id = claimed.event_id OFFSET 0
    ) AS event
    ORDER BY claimed.event_id
  `);

/** An attempt that has ended, and what follows it. */
export type EndedAttempt = {
  readonly delivery: ClaimedDelivery;
  readonly endedAt: Date;
  readonly attempt: LastAttempt;
  readonly decision: DeliveryDecision;
};

/**
 * Records attempts: what follows them, and what they say about the server of their endpoint. A failure of a delivery is not
 * recorded if the lease has ended and another worker has made an attempt. A success always is, because the receiver has the event.
 */
export const recordAttempts = async (db: CommonQueryMethods, attempts: readonly EndedAttempt[]) => {
  const rows = attempts.map(({ delivery, endedAt, attempt, decision }) => ({
    endpoint_id: delivery.endpointId,
    event_id: delivery.id,
    leased_until: delivery.leasedUntil,
    ended_at: endedAt,
    error: attempt.error,
    state: decision.state,
    due_at: decision.dueAt,
    attempt,
  }));
  await db.query(sql.typeAlias("void")`
    WITH ended AS MATERIALIZED (
      SELECT *
      FROM json_to_recordset(${JSON.stringify(rows)}::json) AS given (
        endpoint_id uuid, event_id uuid, leased_until timestamptz, ended_at timestamptz, error text, state text,
        due_at timestamptz, attempt json
      )
    ),
    -- An error only if all attempts failed.
    result AS (
      SELECT endpoint_id, min(ended_at) AS failed_at, CASE WHEN bool_and(error IS NOT NULL) THEN max(error) END AS error
      FROM ended
      GROUP BY endpoint_id
    ),
    updated_endpoint AS (
      UPDATE webhook_endpoint
      SET
        failing_since = CASE WHEN result.error IS NOT NULL THEN coalesce(failing_since, result.failed_at) END,
        last_error = result.error
      FROM result
      WHERE webhook_endpoint.id = ANY(ARRAY(SELECT endpoint_id FROM result))
        AND webhook_endpoint.id = result.endpoint_id
        AND webhook_endpoint.last_error IS DISTINCT FROM result.error
    ),
    -- In one order, so that two calls cannot deadlock. Of two attempts of a delivery, a success counts, or else the later one.
    last_of_delivery AS MATERIALIZED (
      SELECT DISTINCT ON (endpoint_id, event_id) *
      FROM ended
      ORDER BY endpoint_id, event_id, state = 'delivered' DESC, leased_until DESC
    ),
    -- A locked row keeps its ctid. For a join by the key, the planner might read the whole table.
    locked AS (
      SELECT delivery.ctid
      FROM last_of_delivery AS ended
      CROSS JOIN LATERAL (
        SELECT ctid
        FROM webhook_delivery
        WHERE endpoint_id = ended.endpoint_id AND event_id = ended.event_id
        FOR NO KEY UPDATE
      ) AS delivery
    )
    UPDATE webhook_delivery
    SET
      state = ended.state,
      due_at = ended.due_at,
      attempts = webhook_delivery.attempts + 1,
      last_attempt = ended.attempt
    FROM last_of_delivery AS ended
    WHERE webhook_delivery.ctid = ANY(ARRAY(SELECT ctid FROM locked))
      AND webhook_delivery.endpoint_id = ended.endpoint_id
      AND webhook_delivery.event_id = ended.event_id
      AND (webhook_delivery.due_at = ended.leased_until OR ended.state = 'delivered')
  `);
};
