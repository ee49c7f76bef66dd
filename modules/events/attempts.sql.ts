import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { WebhookMessage } from "./webhooks.rules.ts";
import { KEPT_ATTEMPTS } from "./decideDelivery.rules.ts";
import type { AttemptResult, DeliveryDecision } from "./decideDelivery.rules.ts";
import { sql, timestamp } from "../../db/sql.ts";
import { deliveryLease, isDue, isEnabled } from "./pendingEndpoints.sql.ts";
import { signingSecrets } from "./endpoints.sql.ts";

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
  readonly delivery: Pick<ClaimedDelivery, "endpointId" | "id" | "leasedUntil" | "url">;
  readonly startedAt: Date;
  readonly endedAt: Date;
  readonly durationMs: number;
  readonly result: AttemptResult;
  readonly decision: DeliveryDecision;
};

const attemptTable = (attempts: readonly EndedAttempt[]) =>
  sql.unnest(
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
  );

/**
 * Records attempts and what follows them. A failure is not recorded if the lease has ended and another worker has made an
 * attempt; a success always is, because the receiver has the event. Of each delivery, the last attempts are kept.
 */
export const recordAttempts = async (
  db: CommonQueryMethods,
  attempts: readonly EndedAttempt[],
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    WITH ended AS (
      SELECT *
      FROM ${attemptTable(attempts)} AS given (
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
    ),
    dropped AS (
      DELETE FROM webhook_attempt
      WHERE ctid = ANY(ARRAY(
        SELECT earlier.ctid
        FROM updated
        CROSS JOIN LATERAL (
          SELECT webhook_attempt.ctid
          FROM webhook_attempt
          WHERE webhook_attempt.endpoint_id = updated.endpoint_id
            AND webhook_attempt.event_id = updated.event_id
            AND webhook_attempt.number <= updated.number - ${KEPT_ATTEMPTS}
          OFFSET 0
        ) AS earlier
      ))
    )
    INSERT INTO webhook_attempt (endpoint_id, event_id, number, started_at, duration_ms, status, error, response)
    SELECT endpoint_id, event_id, number, started_at, duration_ms, status, error, response
    FROM updated
  `);
};
